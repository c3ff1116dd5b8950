//! Where a task comes from, for who follows one request through many programs: a W3C trace context.
//!
//! A task carries it from its submit to its handler, and nothing here acts on it. Of the two headers of the
//! specification this is `traceparent`; the lists of vendors, `tracestate`, are not carried.

use std::fmt;
use std::str::FromStr;

use crate::rejected::Invalid;

/// Characters of version 00, and the fewest of any version.
const LENGTH: usize = 55;

/// Bit of the flags that says that who made the context may have recorded it.
const SAMPLED: u8 = 1;

/// A `traceparent`, such as `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`: a trace, a span of it,
/// and flags.
///
/// What is written is always version 00. A later version is read as far as 00 goes, as the specification
/// says: both ids, and of the flags whether it was sampled.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent {
    trace: [u8; 16],
    span: [u8; 8],
    flags: u8,
}

impl TraceParent {
    /// From the parts of it; nothing, if one of the ids is zero.
    #[must_use]
    pub fn new(trace: [u8; 16], span: [u8; 8], flags: u8) -> Option<Self> {
        let is_set = trace != [0; 16] && span != [0; 8];
        is_set.then_some(Self { trace, span, flags })
    }

    /// What all spans of one trace share.
    #[must_use]
    pub fn trace_id(&self) -> [u8; 16] {
        self.trace
    }

    /// The span that what comes of this is part of.
    #[must_use]
    pub fn span_id(&self) -> [u8; 8] {
        self.span
    }

    /// The flags, as they were given.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Whether it may have been recorded.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }
}

impl FromStr for TraceParent {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        read(text.as_bytes()).ok_or_else(|| {
            let expected =
                "00-TRACE-SPAN-FLAGS of 32, 16 and 2 digits from 0-9 a-f, with neither id all zeros";
            Invalid::new("traceparent", text, expected)
        })
    }
}

fn read(text: &[u8]) -> Option<TraceParent> {
    let (known, rest) = text.split_at_checked(LENGTH)?;
    let dashes = [known[2], known[35], known[52]] == [b'-'; 3];
    let ([version], trace) = (bytes(&known[..2])?, bytes(&known[3..35])?);
    let (span, [flags]) = (bytes(&known[36..52])?, bytes(&known[53..])?);
    let flags = match version {
        0 if rest.is_empty() => flags,
        // What else a later version says is unknown, and so is the meaning of its other flags.
        1..=0xfe if rest.is_empty() || rest.starts_with(b"-") => flags & SAMPLED,
        _ => return None,
    };
    TraceParent::new(trace, span, flags).filter(|_| dashes)
}

/// Bytes from two digits each. Capitals are not accepted.
fn bytes<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (u128::from_be_bytes(self.trace), u64::from_be_bytes(self.span));
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", self.flags)
    }
}

impl fmt::Debug for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn it_is_read_and_written_as_it_was() {
        for flags in ["00", "01", "03", "ff"] {
            let text = format!("{}{flags}", &GIVEN[..53]);
            let read: TraceParent = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
            assert_eq!(read.is_sampled(), flags != "00");
        }
        let read: TraceParent = GIVEN.parse().unwrap();
        assert_eq!(read.trace_id()[..3], [0x0a, 0xf7, 0x65]);
        assert_eq!((read.span_id()[7], read.flags()), (0x31, 1));
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        for later in [
            GIVEN.replacen("00", "01", 1),
            GIVEN.replacen("00", "fe", 1),
            format!("{}-what-the-future-brings", GIVEN.replacen("00", "cc", 1)),
            format!("{}-", GIVEN.replacen("00", "01", 1)),
            format!("01{}ff-x", &GIVEN[2..53]),
        ] {
            assert_eq!(later.parse::<TraceParent>().unwrap().to_string(), GIVEN, "{later}");
        }
        let plain = GIVEN.replacen("00", "01", 1).replace("-01", "-02");
        assert_eq!(plain.parse::<TraceParent>().unwrap().flags(), 0, "{plain}");
    }

    #[test]
    fn what_is_not_one_is_refused_and_told() {
        for bad in [
            "",
            "00",
            &GIVEN[..54],
            &format!("{GIVEN}0"),
            &format!("{GIVEN}-more"),
            &format!(" {GIVEN}"),
            &format!("{GIVEN}\n"),
            &GIVEN.to_uppercase(),
            &GIVEN.replacen("00", "ff", 1),
            &GIVEN.replacen("00", "0x", 1),
            &GIVEN.replace('-', "_"),
            &GIVEN.replacen("0af7", "0ag7", 1),
            &GIVEN.replacen("-01", "-0é", 1),
            &format!("01{}x", &GIVEN[2..]),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            &"é".repeat(40),
        ] {
            let error = bad.parse::<TraceParent>().unwrap_err();
            assert_eq!(error.field, "traceparent", "{bad:?}");
            assert!(error.expected.contains("neither id all zeros"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn all_that_can_be_made_can_be_read(trace: [u8; 16], span: [u8; 8], flags: u8) {
            if let Some(made) = TraceParent::new(trace, span, flags) {
                prop_assert_eq!(made.to_string().parse(), Ok(made));
                prop_assert_eq!((made.trace_id(), made.span_id(), made.flags()), (trace, span, flags));
            } else {
                prop_assert!(trace == [0; 16] || span == [0; 8]);
            }
        }

        #[test]
        fn reading_never_panics(text in "\\PC*") {
            let _ = text.parse::<TraceParent>();
        }

        #[test]
        fn a_character_off_is_refused_or_another_one(at in 0_usize..55, put in "[0-9a-fA-Fx-]") {
            let mut text = GIVEN.to_owned();
            text.replace_range(at..=at, &put);
            if let Ok(read) = text.parse::<TraceParent>() {
                prop_assert_eq!(read.to_string() == GIVEN, text == GIVEN || at < 2);
            }
        }
    }
}
