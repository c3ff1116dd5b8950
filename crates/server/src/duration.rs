//! Lengths of time as people read them at a glance.

use std::time::Duration;

pub(crate) use windlass::duration::{exact, parse};

/// Says roughly how long: `250 ms`, `12 s`, `3 min`, `2 h`, `5 d`.
pub(crate) fn rough(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roughly_is_one_number() {
        for (seconds, text) in
            [(0, "0 ms"), (12, "12 s"), (119, "119 s"), (200, "3 min"), (9_000, "2 h"), (500_000, "5 d")]
        {
            assert_eq!(rough(Duration::from_secs(seconds)), text);
        }
    }
}
