//! The tests of `windlass definition`, `windlass workflow`, `windlass why` of steps and `task list
//! --workflow`, once more.

#[path = "../workflow/definitions.rs"]
mod definitions;
#[path = "../workflow/looking.rs"]
mod looking;
#[path = "../workflow/operating.rs"]
mod operating;
#[path = "../workflow/starting.rs"]
mod starting;
#[path = "../workflow/why.rs"]
mod why;
