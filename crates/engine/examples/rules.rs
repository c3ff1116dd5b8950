//! A registry of kinds with what their payloads need, held at submit and at run: the planners and workers of
//! an agent.
//!
//! Prints:
//! ```text
//! complete: accepted
//! no question: invalid payload is "{\"instruction\":\"be brief\"}"; expected the field(s) user_question, which this kind needs
//! no payload: invalid payload is "null"; expected the field(s) user_question, instruction, which this kind needs
//! wrong entity: invalid entity is "worker:1"; expected planner:ID, which this kind acts on
//! unknown kind: invalid kind is "execute_magic"; expected one of execute_initial_planning, execute_sql_worker
//! around the client: failed
//! ```
#![allow(clippy::print_stdout)]

use windlass::{Json, Lane, Name, NewTask, Rule, Rules, Windlass, task_id};

const PLANNING: &str = "execute_initial_planning";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rules = Rules::new()
        .kind(PLANNING, Rule::new().entity("planner").require(["user_question", "instruction"]))?
        .kind("execute_sql_worker", Rule::new().entity("worker"))?
        .closed();
    let windlass = Windlass::open("memory:").await?.rules(rules);
    let client = windlass.client();

    let good = r#"{"user_question":"why?","instruction":"be brief"}"#;
    for (name, kind, entity, payload) in [
        ("complete", PLANNING, "planner:1", good),
        ("no question", PLANNING, "planner:1", r#"{"instruction":"be brief"}"#),
        ("no payload", PLANNING, "planner:1", "null"),
        ("wrong entity", PLANNING, "worker:1", good),
        ("unknown kind", "execute_magic", "planner:1", good),
    ] {
        match client.submit_json(kind, payload).entity(entity).await {
            Ok(_) => println!("{name}: accepted"),
            Err(error) => println!("{name}: {error}"),
        }
    }

    // Another program, without the rules, may submit anything; a worker with them does not run it.
    let id = task_id();
    let mut task = NewTask::new(id, Name::kind(PLANNING)?, Json::default());
    task.lane = Some(Lane::of(&"planner:2".parse()?));
    windlass.store().submit(vec![task]).await?;
    let worker = windlass.worker().handle_kind(PLANNING, |_| async { Ok(true) }).start().await?;
    println!("around the client: {}", client.wait(id).await?.task.status.state);
    worker.stop().await?;
    Ok(())
}
