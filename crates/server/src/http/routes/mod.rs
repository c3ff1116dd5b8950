//! The routes, by noun.

// The macros that describe routes write such code.
#![allow(unused_qualifications, elided_lifetimes_in_paths)]

pub(super) mod audit;
pub(super) mod definitions;
pub(super) mod entities;
pub(super) mod events;
pub(super) mod queues;
pub(super) mod schedules;
pub(super) mod stats;
pub(super) mod store;
pub(super) mod tasks;
pub(super) mod workers;
pub(super) mod workflows;

use utoipa_axum::router::OpenApiRouter;
use windlass::access::Scope;

use super::{App, meta};

/// All routes, by what they need: one of the scopes, or nothing.
pub(super) fn all() -> Vec<(&'static [Scope], OpenApiRouter<App>)> {
    let read = OpenApiRouter::new()
        .merge(tasks::reads())
        .merge(workers::reads())
        .merge(definitions::reads())
        .merge(workflows::reads())
        .merge(queues::reads())
        .merge(schedules::reads())
        .merge(stats::reads())
        .merge(events::reads())
        .merge(entities::reads())
        .merge(meta::reads());
    let submit = OpenApiRouter::new().merge(tasks::submits()).merge(workflows::starts());
    let operate = OpenApiRouter::new()
        .merge(tasks::operations())
        .merge(definitions::operations())
        .merge(workflows::operations())
        .merge(queues::operations())
        .merge(schedules::operations())
        .merge(entities::operations())
        .merge(audit::reads());
    vec![
        (&[], meta::open()),
        (&[Scope::Read], read),
        (&[Scope::Submit], submit),
        (&[Scope::Work], workers::works()),
        // What a worker has to read so as to do its work: for that, being a worker is enough.
        (&[Scope::Read, Scope::Work], workflows::reads_of_workers()),
        (&[Scope::Admin], operate),
    ]
}
