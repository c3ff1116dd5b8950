//! Addresses of servers: `http://HOST:PORT` or `https://HOST:PORT`, with a path if something stands before
//! the server.

use std::fmt;
use std::str::FromStr;

use windlass_core::Invalid;

/// Where a server is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Address {
    pub(super) secure: bool,
    /// A name, or an address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// What stands between the host and the paths of Windlass; without a slash at its end.
    pub(super) prefix: String,
}

impl Address {
    /// Host and port, as they stand in a request.
    pub(super) fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        if self.port == usual_port(self.secure) { host } else { format!("{host}:{}", self.port) }
    }
}

fn usual_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.prefix)
    }
}

impl FromStr for Address {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let refused = |expected: &str| Invalid::new("server address", &shown(text), expected);
        let usual = "http://HOST:PORT or https://HOST:PORT, such as http://127.0.0.1:7070";
        let (secure, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return Err(refused(usual)),
        };
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        if authority.contains('@') {
            return Err(refused("no user or password; a token is given by WINDLASS_TOKEN or a file"));
        }
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(|| refused(usual))?)),
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let is_digits = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = match port {
            None => usual_port(secure),
            Some(port) if is_digits(port) => port.parse().map_err(|_| refused("a port up to 65535"))?,
            Some(_) => return Err(refused(usual)),
        };
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
        let legal_in_path = |byte: u8| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&byte);
        if host.is_empty() || !host.bytes().all(legal) || !path.bytes().all(legal_in_path) {
            return Err(refused(usual));
        }
        Ok(Self { secure, host: host.into(), port, prefix: path.trim_end_matches('/').into() })
    }
}

/// The text without what might be a secret in it.
fn shown(text: &str) -> String {
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://…@{place}"),
        (None, Some((_, place))) => format!("…@{place}"),
        (_, None) => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, host, port, prefix, shown) in [
            ("http://127.0.0.1:7070", "127.0.0.1", 7070, "", "http://127.0.0.1:7070"),
            ("https://queue.example.org", "queue.example.org", 443, "", "https://queue.example.org"),
            ("http://localhost/", "localhost", 80, "", "http://localhost"),
            ("http://[::1]:7070/", "::1", 7070, "", "http://[::1]:7070"),
            ("https://[::1]", "::1", 443, "", "https://[::1]"),
            ("https://x:8443/queue/", "x", 8443, "/queue", "https://x:8443/queue"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((&*address.host, address.port, &*address.prefix), (host, port, prefix), "{text}");
            assert_eq!((address.secure, &*address.to_string()), (text.starts_with("https"), shown));
        }
    }

    #[test]
    fn others_are_refused_without_what_might_be_secret() {
        for bad in [
            "",
            "localhost:7070",
            "ftp://x",
            "http://",
            "http://:7070",
            "http://x:",
            "http://x:+1",
            "http://x:70707",
            "http://x y",
            "http://x/a b",
            "http://x/?a",
            "http://[::1",
            "http://[::1]7",
            "http://a\r\nb",
            "http:///x",
        ] {
            assert_eq!(bad.parse::<Address>().unwrap_err().field, "server address", "{bad:?}");
        }
        let refused = "https://ada:s3cret@x".parse::<Address>().unwrap_err().to_string();
        assert!(!refused.contains("s3cret") && refused.contains("WINDLASS_TOKEN"), "{refused}");
    }
}
