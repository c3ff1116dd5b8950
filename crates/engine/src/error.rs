//! How a handler ends when it is not done.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use windlass_core::Outcome;

/// What a handler returns instead of an output: try again, come back later, stop, or give up.
///
/// Every error converts into it with `?` and then means *try again*, as long as attempts are left:
///
/// ```
/// use std::time::Duration;
/// use windlass::TaskError;
///
/// fn parse(text: &str) -> Result<u32, TaskError> {
///     if text.is_empty() {
///         return Err(TaskError::fail("there is nothing to parse, and there never will be"));
///     }
///     if text == "?" {
///         return Err(TaskError::retry("not known yet").after(Duration::from_secs(60)));
///     }
///     Ok(text.parse()?)
/// }
/// assert!(parse("x").is_err());
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct TaskError(Outcome);

impl TaskError {
    /// The attempt failed; try again after the backoff, if attempts are left.
    pub fn retry(error: impl fmt::Display) -> Self {
        Self(Outcome::Failed { error: error.to_string(), retryable: true, retry_after: None })
    }

    /// The attempt failed, and so would every other.
    pub fn fail(error: impl fmt::Display) -> Self {
        Self(Outcome::Failed { error: error.to_string(), retryable: false, retry_after: None })
    }

    /// Not now: come back after `delay`. Costs no attempt.
    #[must_use]
    pub fn snooze(delay: Duration) -> Self {
        Self(Outcome::Snoozed { delay })
    }

    /// The task should not be done.
    pub fn cancel(note: impl fmt::Display) -> Self {
        Self(Outcome::Cancelled { note: note.to_string() })
    }

    /// Try again after this long instead of the policy's backoff. Only for [`TaskError::retry`]; others are
    /// left as they are.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        if let Outcome::Failed { retryable: true, retry_after, .. } = &mut self.0 {
            *retry_after = Some(delay);
        }
        self
    }

    /// What it means to the task.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        self.0
    }
}

/// With its causes, outermost first.
impl<E: StdError> From<E> for TaskError {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self::retry(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::num::ParseIntError);

    #[test]
    fn any_error_means_try_again_and_keeps_its_causes() {
        let error: TaskError = Outer("x".parse::<u8>().unwrap_err()).into();
        let expected = "outer: invalid digit found in string";
        assert_eq!(error, TaskError::retry(expected));
    }

    #[test]
    fn a_delay_belongs_to_a_retry() {
        let delay = Duration::from_secs(9);
        let Outcome::Failed { retry_after, .. } = TaskError::retry("x").after(delay).outcome() else {
            panic!()
        };
        assert_eq!(retry_after, Some(delay));
        assert_eq!(TaskError::fail("x").after(delay), TaskError::fail("x"));
        assert_eq!(TaskError::snooze(delay).after(Duration::ZERO), TaskError::snooze(delay));
    }
}
