"""Enqueue tasks that do nothing to huey on a SQLite file and run them; prints tasks per second for both together."""

import os
import sys
import tempfile
import threading
import time

from huey import SqliteHuey

count, synchronous = int(sys.argv[1]), int(sys.argv[2])
directory = tempfile.mkdtemp(dir=".")
huey = SqliteHuey(
    filename=os.path.join(directory, "huey.db"), fsync=synchronous == 2, journal_mode="wal", results=True
)
done, lock, left = threading.Event(), threading.Lock(), [count]


@huey.task()
def nothing(number):
    with lock:
        left[0] -= 1
        if left[0] == 0:
            done.set()
    return number


begun = time.perf_counter()
for number in range(count):
    nothing(number)
consumer = huey.create_consumer(workers=24, worker_type="thread", periodic=False, initial_delay=0.001, max_delay=0.01)
consumer.start()
done.wait()
elapsed = time.perf_counter() - begun
print(count / elapsed, flush=True)
os._exit(0)
