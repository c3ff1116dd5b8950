//! Every bound of the system, in one place, each with its reason.
//!
//! Reaching one is a typed error ([`Invalid`](crate::Invalid)), never a surprise further in.

use std::time::Duration;

/// Bytes of a payload or a result. Larger things belong in a blob store, with their address in the payload.
pub const JSON_BYTES: usize = 1 << 20;

/// Nesting of a payload or a result. What most JSON readers accept, so that what is stored can be read back.
pub const JSON_DEPTH: usize = 128;

/// Characters of a namespace, queue or kind. They are part of index keys.
pub const NAME_LENGTH: usize = 128;

/// Bytes of an idempotency key, a lane key, an entity or a worker id. They are part of index keys.
pub const KEY_BYTES: usize = 512;

/// Tags of one task.
pub const TAGS: usize = 32;

/// Bytes of one tag.
pub const TAG_BYTES: usize = 128;

/// Bytes of an error, a note or an actor. Longer ones are cut: a failure must always be recordable.
pub const TEXT_BYTES: usize = 16 << 10;

/// Tasks in one submit, commands in one turn, tasks in one claim. Bounds the time the one writer is held.
pub const BATCH: usize = 1_000;

/// Tasks whose moment has come that a claim promotes at least, if there are so many and it finds nothing
/// else.
pub const DUE_AT_ONCE: usize = 100;

/// Bytes of payloads, results of parents and checkpoints that one answer hands to a worker elsewhere. What is
/// claimed beyond that is given back: a thousand payloads of a megabyte would be a gigabyte, held by the
/// server and by the worker. One task is always handed out.
pub const HANDED_BYTES: usize = 32 << 20;

/// Bytes of one line of an attempt's log.
pub const LINE_BYTES: usize = 4 << 10;

/// Bytes of the lines kept of one attempt's log. The newest are kept; more belongs where logs are searched.
pub const LOG_BYTES: usize = 64 << 10;

/// Lines kept of one attempt's log.
pub const LOG_LINES: usize = 1_000;

/// Bytes of a cron expression or the name of a time zone.
pub const CRON_BYTES: usize = 256;

/// Missed slots that one schedule may ask to be made up for.
pub const CATCH_UP: u32 = 100;

/// Slots of one schedule that are looked at when many have come at once: more than these are not counted as
/// left out.
pub const COUNTED_SLOTS: usize = 1_000;

/// Schedules of one store. A leader looks at those that are due; operators list all.
pub const SCHEDULES: usize = 10_000;

/// How late a slot may be fired and still be on time: a leader that dies is followed within its lease of 30
/// s.
pub const ON_TIME: Duration = Duration::from_secs(60);

/// How long a dead worker is still listed.
pub const DEAD_WORKERS: Duration = Duration::from_secs(3600);

/// Queues, and kinds, that one worker may ask for. Their product is the number of index look-ups of a claim.
pub const SUBSCRIPTIONS: usize = 256;

/// Handlers that one worker runs at once. More workers are cheaper than more than this.
pub const POOL: usize = 10_000;

/// Tasks of one page of a listing.
pub const PAGE: usize = 1_000;

/// Rows that one page of a listing looks at before it answers with what it has and a cursor.
pub const PAGE_SCAN: usize = 20_000;

/// Attempts that can be asked for. No limit is `None`.
pub const MAX_ATTEMPTS: u32 = 1_000_000;

/// Slots of one lane. Above this a lane limits nothing.
pub const LANE_LIMIT: u32 = 100_000;

/// Largest backoff of a policy.
pub const BACKOFF: Duration = Duration::from_secs(365 * 24 * 3600);

/// Largest delay a handler may ask for by itself (`Retry-After`, snooze). It may exceed the policy's cap.
pub const RETRY_AFTER: Duration = Duration::from_secs(30 * 24 * 3600);

/// Largest growth factor of an exponential backoff.
pub const FACTOR: f64 = 1_000.0;

/// Largest time a handler may be given.
pub const TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Largest ageing, in thousandths of a priority point.
pub const AGEING: u32 = 1_000_000_000;

/// Steps of one workflow, and items of one map.
pub const STEPS: usize = 100_000;

/// Steps on the longest way through a workflow.
pub const DEPTH: usize = 100_000;

/// Bytes of a definition as JSON. It is read whole by everyone who works on one of its workflows.
pub const DEFINITION_BYTES: usize = 32 << 20;

/// Bytes of a definition that a server takes, unless its operator raises it. Ten thousand steps fit.
pub const SENT_DEFINITION_BYTES: usize = 1 << 20;

/// Bytes of a definition's version.
pub const VERSION_BYTES: usize = 50;

/// Bytes of one expression, or of a program's command.
pub const EXPRESSION_BYTES: usize = 8 << 10;

/// Bytes of a step's `input`, and of the list of its `map`, before its expressions are replaced by what they
/// mean.
pub const TEMPLATE_BYTES: usize = 64 << 10;

/// How long is known what happened to workflows in each minute.
pub const ACTIVITY: Duration = Duration::from_secs(31 * 24 * 3600);

/// Workflows within workflows.
pub const NESTING: u32 = 16;

/// How long a store goes on telling changes after somebody last asked for them. Long enough that who was away
/// for a moment misses nothing, short enough that nobody pays for one who is gone.
pub const LISTENED: Duration = Duration::from_secs(15 * 60);

/// How long events are kept.
pub const EVENTS_KEPT: Duration = Duration::from_secs(3600);

/// Old events that one round of pruning deletes. With a round a minute, what happens 1,600 times a second
/// goes as fast as it comes.
pub const EVENTS_PRUNED: usize = 100_000;

/// Access tokens of one store. Whoever checks them holds all of them in memory.
pub const ACCESS_TOKENS: usize = 10_000;

/// Former secrets of one access token that are accepted at once.
pub const FORMER_SECRETS: usize = 8;

/// Groups of one access token.
pub const GROUPS: usize = 64;

/// How long is known what operators did. A year, and a month in which somebody may look at it.
pub const AUDIT_KEPT: Duration = Duration::from_secs(400 * 24 * 3600);
