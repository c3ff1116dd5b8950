//! Places whose program works through a server, which has its store elsewhere. Otherwise the same as those of
//! the other tests.

#[path = "../support/mod.rs"]
mod real;

use std::ops::Deref;

pub(crate) use real::{Fifo, Running, Said, gone};

pub(crate) struct Place {
    place: real::Place,
    _server: Running,
    _elsewhere: real::Place,
}

impl Place {
    pub(crate) fn new() -> Self {
        let elsewhere = real::Place::new();
        let mut command = elsewhere.program();
        let mut server = Running::start(command.args(["serve", "--listen", "127.0.0.1:0"]));
        let line = server.until("serving http");
        let url = line.split(' ').next_back().unwrap();
        Self {
            place: real::Place::new().with("WINDLASS_SERVER", url),
            _server: server,
            _elsewhere: elsewhere,
        }
    }
}

impl Deref for Place {
    type Target = real::Place;
    fn deref(&self) -> &real::Place {
        &self.place
    }
}
