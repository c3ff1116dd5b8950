//! One request, or more, for each route of the description. A new route needs a line here.

/// A request that a caller with every right may make: it succeeds.
pub(super) struct Asked {
    /// The method, and the path as openapi.json has it.
    pub(super) operation: &'static str,
    /// What sets it apart from other requests of the same operation.
    pub(super) note: &'static str,
    /// The path, if it is not the described one with the usual names; a text that begins with `?` is added to
    /// it.
    pub(super) path: &'static str,
    pub(super) body: &'static str,
    /// The status of its success; 409, if it passes the gate and the state of the workflow does not allow it.
    pub(super) ok: u16,
}

const fn ask(
    operation: &'static str,
    note: &'static str,
    path: &'static str,
    body: &'static str,
    ok: u16,
) -> Asked {
    Asked { operation, note, path, body, ok }
}

/// Words in square brackets stand for what a [`Scene`](super::scene::Scene) has.
pub(super) const REQUESTS: &[Asked] = &[
    ask("GET /health", "", "", "", 200),
    ask("GET /ready", "", "", "", 200),
    ask("GET /metrics", "", "", "", 200),
    // Tasks.
    ask("POST /v1/tasks", "", "", r#"{"kind": "x", "namespace": "[NS]", "queue": "[QUEUE]"}"#, 201),
    ask(
        "POST /v1/tasks/batch",
        "",
        "",
        r#"{"tasks": [{"kind": "x", "namespace": "[NS]", "queue": "[QUEUE]"}]}"#,
        201,
    ),
    ask("GET /v1/tasks", "of a queue in a namespace", "?queue=[QUEUE]&namespace=[NS]", "", 200),
    ask("GET /v1/tasks", "of a queue", "?queue=[QUEUE]", "", 200),
    ask("GET /v1/tasks", "of a namespace", "?namespace=[NS]", "", 200),
    ask("GET /v1/tasks", "of a worker", "?worker=[WORKER]", "", 200),
    ask("GET /v1/tasks", "", "", "", 200),
    ask("GET /v1/tasks/by-key", "", "?kind=x&key=[KEY]&namespace=[NS]", "", 200),
    ask("GET /v1/tasks/{id}", "", "", "", 200),
    ask("GET /v1/tasks/{id}/why", "", "", "", 200),
    ask("GET /v1/tasks/{id}/log", "", "", "", 200),
    ask("POST /v1/tasks/{id}/retry", "", "/v1/tasks/[ENDED]/retry", "{}", 200),
    ask("POST /v1/tasks/{id}/cancel", "", "", "{}", 200),
    ask("POST /v1/tasks/{id}/resolve", "", "", "{}", 200),
    ask("DELETE /v1/tasks/{id}", "", "/v1/tasks/[ENDED]", "", 200),
    // Workers.
    ask("POST /v1/workers", "", "", r#"{"kinds": ["x"], "namespace": "[NS]", "queues": ["[QUEUE]"]}"#, 201),
    ask(
        "POST /v1/workers",
        "also for an open queue",
        "",
        r#"{"kinds": ["x"], "namespace": "[NS]", "queues": ["mail-out", "[QUEUE]"]}"#,
        201,
    ),
    ask(
        "POST /v1/workers",
        "in the place of one that is registered",
        "",
        r#"{"kinds": ["x"], "namespace": "team-a", "queues": ["mail-in"], "worker_id": "[WORKER]"}"#,
        201,
    ),
    ask("GET /v1/workers", "", "", "", 200),
    ask("GET /v1/workers", "of a namespace", "?namespace=[NS]", "", 200),
    ask("POST /v1/workers/{id}/claim", "", "", "{}", 200),
    ask("POST /v1/workers/{id}/heartbeat", "", "", r#"{"release_others": true}"#, 200),
    ask(
        "POST /v1/workers/{id}/finish",
        "",
        "",
        r#"{"outcomes": [{"id": "[HELD]", "lease": 1, "outcome": "completed"}]}"#,
        200,
    ),
    ask("POST /v1/workers/{id}/report", "", "", r#"{"reports": []}"#, 200),
    ask("DELETE /v1/workers/{id}", "", "", "", 200),
    // Definitions.
    ask(
        "PUT /v1/definitions/{name}",
        "",
        "?namespace=[NS]",
        r#"{"name": "[DEFINITION]", "steps": {"a": {"task": "x", "queue": "[QUEUE]"}}}"#,
        200,
    ),
    ask("GET /v1/definitions", "", "?namespace=[NS]", "", 200),
    ask("GET /v1/definitions/{name}", "", "?namespace=[NS]", "", 200),
    ask("GET /v1/definitions/{name}/versions", "", "?namespace=[NS]", "", 200),
    // Workflows. What a step may be, the server says itself: each of those words needs a line.
    ask(
        "POST /v1/workflows",
        "a stored definition",
        "",
        r#"{"definition": "[DEFINITION]", "namespace": "[NS]"}"#,
        201,
    ),
    ask(
        "POST /v1/workflows",
        "a stored definition that starts another",
        "",
        r#"{"definition": "around-[DEFINITION]", "namespace": "[NS]"}"#,
        201,
    ),
    ask(
        "POST /v1/workflows",
        "a stored definition with a program",
        "",
        r#"{"definition": "run-[DEFINITION]", "namespace": "[NS]"}"#,
        201,
    ),
    ask(
        "POST /v1/workflows",
        "with a step `task`",
        "",
        r#"{"steps": {"a": {"task": "x", "queue": "[QUEUE]"}}, "namespace": "[NS]"}"#,
        201,
    ),
    ask(
        "POST /v1/workflows",
        "with a step `workflow`",
        "",
        r#"{"steps": {"a": {"workflow": "[DEFINITION]", "queue": "mail-in"}}, "namespace": "[NS]"}"#,
        201,
    ),
    ask(
        "POST /v1/workflows",
        "with a step `run`",
        "",
        r#"{"steps": {"a": {"run": "true", "queue": "[QUEUE]"}}, "namespace": "[NS]"}"#,
        201,
    ),
    ask("GET /v1/workflows", "", "", "", 200),
    ask("GET /v1/workflows", "of a namespace", "?namespace=[NS]", "", 200),
    ask("GET /v1/workflows/ready", "", "", "", 200),
    ask("GET /v1/workflows/ready", "of a namespace", "?namespace=[NS]", "", 200),
    ask("GET /v1/workflows/{id}", "", "", "", 200),
    ask("GET /v1/workflows/{id}/graph.svg", "", "", "", 200),
    ask("GET /v1/workflows/{id}/graph.mmd", "", "", "", 200),
    ask("GET /v1/workflows/{id}/steps/{step}/ancestors", "", "", "", 200),
    ask("POST /v1/workflows/{id}/steps/{step}/retry", "", "/v1/workflows/[BROKEN]/steps/a/retry", "{}", 409),
    ask("POST /v1/workflows/{id}/steps/{step}/cancel", "", "", "{}", 200),
    ask("POST /v1/workflows/{id}/steps/{step}/resolve", "", "", "{}", 200),
    ask("POST /v1/workflows/{id}/steps/{step}/skip", "", "", "{}", 200),
    ask("POST /v1/workflows/{id}/cancel", "", "", "{}", 200),
    ask("POST /v1/workflows/{id}/pause", "", "", "{}", 200),
    ask("POST /v1/workflows/{id}/resume", "", "/v1/workflows/[PAUSED]/resume", "{}", 200),
    ask("POST /v1/workflows/{id}/resolve", "", "/v1/workflows/[BROKEN]/resolve", "{}", 409),
    ask("POST /v1/workflows/{id}/give-up", "", "/v1/workflows/[BROKEN]/give-up", "{}", 409),
    ask("POST /v1/workflows/{id}/rerun", "", "/v1/workflows/[OVER]/rerun", r#"{"from": "a"}"#, 201),
    // Queues and schedules.
    ask("GET /v1/queues", "", "", "", 200),
    ask("GET /v1/queues", "of a namespace", "?namespace=[NS]", "", 200),
    ask("POST /v1/queues/{name}/pause", "", "", r#"{"namespace": "[NS]"}"#, 200),
    ask("POST /v1/queues/{name}/resume", "", "", r#"{"namespace": "[NS]"}"#, 200),
    ask("GET /v1/schedules", "", "", "", 200),
    ask("GET /v1/schedules", "of a namespace", "?namespace=[NS]", "", 200),
    ask("GET /v1/schedules/{name}", "", "?namespace=[NS]", "", 200),
    ask(
        "PUT /v1/schedules/{name}",
        "a new one",
        "/v1/schedules/new-[SCHEDULE]?namespace=[NS]",
        r#"{"cron": "0 4 * * *", "task": {"kind": "x", "namespace": "[NS]", "queue": "[QUEUE]"}}"#,
        200,
    ),
    ask(
        "PUT /v1/schedules/{name}",
        "one that exists, for an open queue",
        "?namespace=[NS]",
        r#"{"cron": "0 4 * * *", "task": {"kind": "x", "namespace": "[NS]", "queue": "mail-in"}}"#,
        200,
    ),
    ask("POST /v1/schedules/{name}/pause", "", "?namespace=[NS]", "{}", 200),
    ask("POST /v1/schedules/{name}/resume", "", "?namespace=[NS]", "{}", 200),
    ask("POST /v1/schedules/{name}/run", "", "?namespace=[NS]", "{}", 201),
    ask("DELETE /v1/schedules/{name}", "", "?namespace=[NS]", "", 200),
    // Numbers.
    ask("GET /v1/stats", "", "", "", 200),
    ask("GET /v1/stats", "of a namespace", "?namespace=[NS]", "", 200),
    ask("GET /v1/analytics", "", "", "", 200),
    ask("GET /v1/analytics", "of a namespace", "?namespace=[NS]", "", 200),
    ask("GET /v1/analytics/stale", "", "", "", 200),
    ask("GET /v1/analytics/stale", "of a namespace", "?namespace=[NS]", "", 200),
    ask("GET /v1/analytics/slowest-steps", "", "", "", 200),
    ask("GET /v1/analytics/slowest-steps", "of a namespace", "?namespace=[NS]", "", 200),
    ask("GET /v1/analytics/slowest-workflows", "", "", "", 200),
    ask("GET /v1/analytics/slowest-workflows", "of a namespace", "?namespace=[NS]", "", 200),
    // Entities.
    ask("GET /v1/entities", "", "?namespace=[NS]", "", 200),
    ask("GET /v1/entities/{entity}", "", "?namespace=[NS]", "", 200),
    ask("PUT /v1/entities/{entity}", "", "/v1/entities/new:1?namespace=[NS]", "", 200),
    ask("DELETE /v1/entities/{entity}", "", "?namespace=[NS]", "", 200),
    // Events and the audit.
    ask("GET /v1/events", "", "", "", 200),
    ask("GET /v1/events", "of a queue", "?queue=[QUEUE]", "", 200),
    ask("GET /v1/events", "of a namespace", "?namespace=[NS]", "", 200),
    ask("GET /v1/events", "of a queue in a namespace", "?queue=[QUEUE]&namespace=[NS]", "", 200),
    ask("GET /v1/audit", "", "", "", 200),
];
