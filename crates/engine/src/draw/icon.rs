//! A mark for each state, so that colours alone need not be told apart.

use windlass_core::State;

/// The side of the square that marks are drawn in.
pub(super) const SIDE: f64 = 16.0;

/// A path in a square of [`SIDE`], for a line with round ends.
pub(super) fn mark(state: State) -> &'static str {
    match state {
        // Three dots.
        State::Waiting => "M4.8 8h.01M8 8h.01M11.2 8h.01",
        // The hands of a clock.
        State::Scheduled => "M8 4.4V8.2L10.6 9.8",
        // Two bars: it could go on at once.
        State::Pending => "M6.3 5.4V10.6M9.7 5.4V10.6",
        // An arrow to the right.
        State::Claimed => "M4.6 8H11M8.4 5.2L11.2 8L8.4 10.8",
        // The triangle that says "play".
        State::Running => "M6.5 5.2L11 8L6.5 10.8Z",
        // Around once more.
        State::WaitingForRetry => "M11.3 8.7A3.4 3.4 0 1 1 10.5 5.6M10.9 3.7V5.9H8.7",
        // A tick.
        State::Completed => "M4.7 8.4L7.1 10.7L11.4 5.7",
        // A cross.
        State::Failed => "M5.5 5.5L10.5 10.5M10.5 5.5L5.5 10.5",
        // An exclamation mark.
        State::DeadLetter => "M8 4.3V8.7M8 11.5h.01",
        // A stroke.
        State::Cancelled => "M5.2 10.8L10.8 5.2",
        // Past it.
        State::Skipped => "M4.8 5.4L7.4 8L4.8 10.6M8.6 5.4L11.2 8L8.6 10.6",
        // A tick on a line.
        State::ResolvedManually => "M4.9 7L7.2 9.2L11.1 4.8M5 11.6H11",
    }
}
