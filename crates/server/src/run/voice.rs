//! Telling what happens to whoever listens: a tree that is drawn again and again on a terminal, lines
//! elsewhere, JSON for programs.

use std::io::{self, IsTerminal, Write, stderr, stdout};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::json;
use windlass::Timestamp;

use super::event::Event;
use super::follow::Look;
use super::screen::Screen;
use super::tree;
use super::view::View;
use super::which::Chosen;
use crate::address::without_password;
use crate::escape::{self, plain};
use crate::moment;
use crate::paint::Paint;
use crate::session::print;
use crate::streams::LastLines;
use crate::telemetry::Telemetry;

/// How it is told.
#[derive(Debug)]
pub(crate) struct Voice {
    form: Form,
    paint: Paint,
    logs: Logs,
}

#[derive(Debug)]
enum Form {
    Tree {
        screen: Screen,
        view: View,
        began: Timestamp,
    },
    Lines,
    Json,
    /// The tree stays as it is; what follows comes below.
    Over,
}

impl Voice {
    pub(crate) fn new(json: bool, paint: Paint) -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let form = match json {
            true => Form::Json,
            false if stdout().is_terminal() && !is_dumb => {
                Form::Tree { screen: Screen::default(), view: View::default(), began: moment::now() }
            }
            false => Form::Lines,
        };
        let kept = matches!(form, Form::Tree { .. }).then(Arc::default);
        Self { form, paint, logs: Logs(kept) }
    }

    /// Whether a picture is drawn again and again.
    pub(crate) fn draws(&self) -> bool {
        matches!(self.form, Form::Tree { .. })
    }

    /// Says something beside: on standard error, but never across the tree.
    pub(crate) fn warn(&mut self, line: &str) {
        let line = plain(line);
        match &mut self.form {
            Form::Tree { screen, .. } => screen.above(&line),
            _ => drop(writeln!(stderr(), "{line}")),
        }
    }

    /// Says which run it is.
    pub(crate) fn begin(&mut self, chosen: &Chosen, address: &str) {
        let Chosen { id, name, version, goes_on, is_over } = chosen;
        let address = without_password(address);
        match &self.form {
            Form::Json => json_line(&json!({
                "event": "workflow_started", "at": moment::now().to_string(), "workflow_id": id.to_string(),
                "name": &**name, "version": version, "resumed": goes_on, "store": address,
            })),
            _ => {
                let goes_on = match (goes_on, is_over) {
                    (_, true) => ", which is over; nobody was shown how it ended",
                    (true, false) => ", which goes on",
                    (false, false) => "",
                };
                self.warn(&format!("run {id} of {name} (version {version}), kept in {address}{goes_on}"));
            }
        }
    }

    /// Tells what has happened. The tree shows it.
    pub(crate) fn tell(&mut self, events: &[Event]) {
        for event in events {
            match &self.form {
                Form::Json => json_line(&event.json()),
                Form::Lines => {
                    let _ = print(&format!("{} {}\n", clock(event.at), event.line()));
                }
                Form::Tree { .. } | Form::Over => {}
            }
        }
    }

    /// Shows how everything is.
    pub(crate) fn show(&mut self, look: &Look, lines: &LastLines) {
        if let Form::Tree { view, began, .. } = &mut self.form {
            *view = View::of(look, *began);
            self.draw(lines);
        }
    }

    /// Draws the tree, with what programs have said and the time that has passed.
    pub(crate) fn draw(&mut self, lines: &LastLines) {
        if let Form::Tree { screen, view, .. } = &mut self.form {
            for line in self.logs.take() {
                screen.above(&plain(&line));
            }
            view.hear(lines);
            let size = Screen::size();
            screen.draw(tree::lines(view, size, moment::now(), self.paint), size);
        }
    }

    /// Says that it was stopped. People are told by the error.
    pub(crate) fn interrupted(&mut self, chosen: &Chosen) {
        if let Form::Json = self.form {
            let (at, id) = (moment::now().to_string(), chosen.id.to_string());
            json_line(&json!({ "event": "interrupted", "at": at, "workflow_id": id }));
        }
    }

    /// Draws no more.
    pub(crate) fn end(&mut self) {
        if self.draws() {
            self.form = Form::Over;
        }
        for line in self.logs.take() {
            let _ = writeln!(stderr(), "{}", plain(&line));
        }
    }
}

fn json_line(value: &impl Serialize) {
    // Nothing that is told has keys that are not strings, which is all that can fail.
    if let Ok(text) = serde_json::to_string(value) {
        let _ = print(&format!("{}\n", escape::json(&text)));
    }
}

/// `12:00:01`, by the clock on the wall.
fn clock(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_microsecond(at.as_micros()).unwrap_or_default();
    at.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

/// What the worker logs: kept for a moment while a tree is drawn, which it would spoil.
#[derive(Clone, Debug)]
struct Logs(Option<Arc<Mutex<Vec<String>>>>);

impl Logs {
    fn take(&self) -> Vec<String> {
        let Some(kept) = &self.0 else { return Vec::new() };
        std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes).trim_end().to_owned();
        match &self.0 {
            Some(kept) => kept.lock().unwrap_or_else(PoisonError::into_inner).push(line),
            None => writeln!(stderr(), "{line}")?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets what the worker warns of be heard.
pub(crate) fn listen_to_logs(voice: &Voice) -> Result<Telemetry> {
    let logs = voice.logs.clone();
    Telemetry::start(move || logs.clone())
}
