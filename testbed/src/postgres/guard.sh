# Runs the server "$@" for as long as standard input stays open, and prints its process id.
#
# Standard input is a pipe that the test holds. However the test ends, even killed, the pipe ends with it, and then the
# server is stopped and its directory $1 removed. A line on the pipe is a signal that stops the server and leaves the
# directory, for another start.
home=$1
shift
exec 3<&0
"$@" </dev/null >>"$home/log" 2>&1 3<&- &
server=$!
echo "$server"
(
    read -r signal <&3
    asked=$?
    # A server that ended by itself has no process id any more; another process may have it by now.
    [ -e "$home/ended" ] || kill -s "${signal:-QUIT}" "$server"
    exit "$asked"
) &
listener=$!
exec 3<&-
wait "$server"
: >"$home/ended"
wait "$listener" || rm -rf "$home"
