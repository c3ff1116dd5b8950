//! The statements: files in `sql/`, written for the schema `windlass`, made ready for the one that is used.

use super::Schema;

/// Columns of `tasks` and of where a task stands, in the order that [`super::row::task`] reads them.
const SPEC: &str = "t.seq, t.id, t.namespace, t.queue, t.kind, t.priority, t.per_hour, t.per_retry, t.key, t.lane, \
    t.lane_limit, t.lane_strict, t.timeout, t.tags::text, t.max_attempts, t.retry::text, t.created_at";
const LIVE: &str = "l.state, l.attempt, l.lease, l.worker, l.due_at, l.claimed_at, l.started_at, NULL::timestamptz, \
    l.updated_at, l.error, l.slot, l.rank, l.entries, t.is_step, l.waits, l.met, l.others, \
    t.traceparent";
const ENDED: &str = "e.state, e.attempt, e.lease, e.worker, NULL::timestamptz, e.claimed_at, e.started_at, \
    e.finished_at, e.updated_at, e.error, false, e.rank, e.entries, t.is_step, NULL::text, NULL::bigint, NULL::bigint, \
    t.traceparent";
const ROW: &str = "r.seq, r.id, r.namespace, r.queue, r.kind, r.priority, r.per_hour, r.per_retry, r.key, r.lane, \
    r.lane_limit, r.lane_strict, r.timeout, r.tags::text, r.max_attempts, r.retry::text, r.created_at, r.state, \
    r.attempt, r.lease, r.worker, r.due_at, r.claimed_at, r.started_at, r.finished_at, r.updated_at, r.error, r.slot, \
    r.rank, r.entries, r.is_step, r.waits, r.met, r.others, r.traceparent";
/// Columns of `workflows`, in the order that [`super::workflow_row::stored`] reads them.
pub(super) const WORKFLOW: &str = "w.seq, w.id, w.namespace, w.name, w.version, w.definition, w.key, w.priority, w.parent, w.nesting, w.origin, \
    w.created_at, w.state, w.paused, w.waiting, w.nested, \
    w.active, w.timed, w.done, w.skipped, w.cancelled, w.failed, w.owner, \
    w.owned_until, w.updated_at, w.finished_at, w.entries, w.retries";
const SCHEDULE: &str = "namespace, name, cron, zone, template::text, missed, overlap, paused, next_at, last_at, \
    last_task, fired, skipped, error, updated_at, left_out";

/// What `end` and `amend` are told about tasks that are over: where their rows are and were, and what is to
/// be in them. Lists that are unnested here and not by a function in FROM take turns, and are not stored one
/// by one.
const SAID_ENDED: &str = "SELECT \
    unnest($1::text[]::tid[]) AS at, unnest($2::bigint[]) AS seq, unnest($3::integer[]) AS before, \
    unnest($4::text[]) AS state, unnest($5::bigint[]) AS attempt, unnest($6::bigint[]) AS lease, \
    unnest($7::text[]) AS worker, unnest($8::timestamptz[]) AS claimed_at, \
    unnest($9::timestamptz[]) AS started_at, unnest($10::timestamptz[]) AS finished_at, \
    unnest($11::timestamptz[]) AS updated_at, unnest($12::text[]) AS error, \
    unnest($13::bigint[]) AS rank, unnest($14::integer[]) AS entries, unnest($15::boolean[]) AS plain, \
    unnest($16::text[]) AS result, unnest($17::boolean[]) AS is_step";
/// What `update` and `reopen` are told about tasks that are not.
const SAID_LIVE: &str = "SELECT \
    unnest($1::text[]::tid[]) AS at, unnest($2::bigint[]) AS seq, unnest($3::integer[]) AS before, \
    unnest($4::text[]) AS state, unnest($5::bigint[]) AS attempt, unnest($6::bigint[]) AS lease, \
    unnest($7::text[]) AS worker, unnest($8::timestamptz[]) AS due_at, \
    unnest($9::timestamptz[]) AS claimed_at, unnest($10::timestamptz[]) AS started_at, \
    unnest($11::timestamptz[]) AS updated_at, unnest($12::text[]) AS error, \
    unnest($13::boolean[]) AS slot, unnest($14::bigint[]) AS rank, unnest($15::integer[]) AS entries, \
    unnest($16::boolean[]) AS plain, unnest($17::text[]) AS waits, unnest($18::bigint[]) AS met, \
    unnest($19::bigint[]) AS others";

/// The last moment there is.
const MAX: &str = "timestamptz '9999-12-31 23:59:59.999999+00'";

/// What every place in the order of claims is behind.
const LOWEST: &str = "'-9223372036854775808'::bigint";

/// Until when the worker in a row `w` is alive.
const ALIVE_UNTIL: &str = "least(w.heartbeat_at + w.dead_after * interval '1 microsecond', \
    timestamptz '9999-12-31 23:59:59.999999+00')";

/// Into how many parts numbers of tasks are split, so that connections do not wait for one another.
const PARTS: &str = "64";

/// A statement.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) text: String,
    /// Whether it is used so often that it is worth being prepared, where that is possible.
    pub(super) is_hot: bool,
}

macro_rules! statements {
    (hot: $($hot:ident)*; cold: $($cold:ident)*;) => {
        /// Every statement.
        #[derive(Debug)]
        pub(super) struct Sql {
            $(pub(super) $hot: Statement,)*
            $(pub(super) $cold: Statement,)*
            /// A claim from one queue of one kind.
            pub(super) claim_one: Statement,
        }

        impl Sql {
            /// How many are worth being prepared.
            pub(super) const HOT: usize = [$(stringify!($hot)),*].len() + 1;

            pub(super) fn new(schema: &Schema) -> Self {
                let text = |text| prepare(text, schema);
                let mut sql = Self {
                    $($hot: Statement {
                        text: text(include_str!(concat!("sql/", stringify!($hot), ".sql"))),
                        is_hot: true,
                    },)*
                    $($cold: Statement {
                        text: text(include_str!(concat!("sql/", stringify!($cold), ".sql"))),
                        is_hot: false,
                    },)*
                    claim_one: Statement { text: String::new(), is_hot: true },
                };
                sql.claim_one.text = sql.claim.text.replace("{picked}", &sql.pick_one.text);
                sql.claim.text = sql.claim.text.replace("{picked}", &sql.pick.text);
                sql
            }

            /// All of them, by name.
            pub(super) fn all(&self) -> Vec<(&'static str, String)> {
                vec![
                    ("claim_one", self.claim_one.text.clone()),
                    $((stringify!($hot), self.$hot.text.clone()),)*
                    $((stringify!($cold), self.$cold.text.clone()),)*
                ]
            }

            /// Those worth being prepared.
            pub(super) fn hot(&self) -> impl Iterator<Item = &str> {
                [&self.claim_one, $(&self.$hot,)*].into_iter().map(|statement| &*statement.text)
            }
        }
    };
}

statements! {
    hot: alive submit end update history count claim now lock_workflows lock_lanes_of load_live update_workflow count_workflows add_activity;
    cold: lock_lanes load_ended exists first_between find_keys find_ids find_entities find_workflows fill amend reopen
    pick pick_one delete delete_history notes_of put_notes workers_of put_worker
    heartbeat held delete_worker forget_workers last_heartbeat set_back_workers set_back_tasks workers lock_leader check_leader leader put_leader pause_queue
    resume_queue paused_queues put_entity delete_entity entities has_entity lock_schedules schedule schedules
    due_schedules put_schedule delete_schedule due due_to_claim next_due orphans old parked_lanes record history_of all_notes find
    counts lane_holders task settings snapshots floors put_floors count_steps definition definition_content definition_versions definitions delete_definition delete_steps delete_workflow delete_workflow_history insert_definition insert_workflow load_unsettled announce_messages next_open_workflow old_workflows results start steps tell_workflow slowest_steps slowest_workflows steps_together workflows_together activity forget_activity ready_workflows workflow_counts workflow workflow_by_key workflow_history workflow_input workflow_of_step listening events begin_listening keep_listening begin_telling others_at_work still_at_work stop_listening forget_events
    insert_access_token other_access_tokens access_tokens access_token delete_access_token rotate_access_token
    touch_access_tokens had_access_tokens insert_audit audits_newest audits_oldest release_audit
    delete_audit;
}

/// Fills in what several statements share, and the schema.
fn prepare(text: &str, schema: &Schema) -> String {
    let mut sql = text.to_owned();
    for (name, value) in [
        ("{spec}", SPEC),
        ("{live}", LIVE),
        ("{ended}", ENDED),
        ("{schedule}", SCHEDULE),
        ("{workflow}", WORKFLOW),
        ("{said_ended}", SAID_ENDED),
        ("{said_live}", SAID_LIVE),
        ("{max}", MAX),
        ("{lowest}", LOWEST),
        ("{alive_until}", ALIVE_UNTIL),
        ("{parts}", PARTS),
        ("{salt}", &schema.salt().to_string()),
        ("r.*", ROW),
        ("windlass.", &format!("{schema}.")),
    ] {
        sql = sql.replace(name, value);
    }
    sql
}

/// The statement for a part of the tasks of a workflow.
pub(super) fn steps(which: &str, schema: &Schema) -> String {
    prepare(&format!("SELECT r.* FROM windlass.task_rows r WHERE {which}"), schema)
}

/// The statement for one step of a listing, whose places in the order of submission come from `source`.
pub(super) fn listing(source: &str, order: &str, schema: &Schema) -> String {
    format!(
        "SELECT {ROW} FROM (SELECT s.seq FROM {source}) s \
        CROSS JOIN LATERAL (SELECT * FROM {schema}.task_rows r WHERE r.seq = s.seq OFFSET 0) r ORDER BY s.seq {order}"
    )
}
