//! Workflows that a seed decides about, and what must become of each of their steps.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use windlass::{
    Definition, Join, Place, Record, State, TaskId, WorkflowId, WorkflowRecord, WorkflowState, history,
};

use super::links::{Fails, Linked, digest};
use super::random::Random;

/// The workflow that steps of the large one are.
pub(crate) const CHILD: &str = "child";

/// How large a workflow is.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Steps beside each other: each needs the one before it in its chain, and some need others, too.
    chains: u64,
    rows: u64,
    /// Steps with lists, and how long these are at least; they may be half as long again.
    maps: u64,
    items: u64,
    /// Steps that are workflows.
    nests: u64,
    /// Whether a step fails for good.
    breaks: bool,
}

/// What a step does.
#[derive(Clone, Debug)]
enum What {
    Link(Fails),
    /// Does what a link does for each element of a list.
    Map(u64),
    Nest,
    /// Is a workflow for each element of a list.
    Nests(u64),
}

/// What must become of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Done,
    /// Its condition is false.
    Skipped,
    /// Its parents do not allow it.
    Unwanted,
    /// It fails for good, and an operator settles it.
    Settled,
}

impl Fate {
    fn is_done(self) -> bool {
        matches!(self, Self::Done | Self::Settled)
    }
}

#[derive(Clone, Debug)]
struct Node {
    needs: Vec<usize>,
    join: Join,
    what: What,
    fate: Fate,
    text: Value,
}

/// A workflow and what must become of it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    name: &'static str,
    nodes: Vec<Node>,
    /// The one of the steps that are workflows.
    child: Option<Box<Plan>>,
    random: Random,
}

fn name(node: usize) -> String {
    format!("s{node:04}")
}

impl Plan {
    /// About a thousand tasks with a bit of everything.
    pub(crate) fn large(seed: u64) -> Self {
        let shape = Shape { chains: 3, rows: 3, maps: 1, items: 3, nests: 0, breaks: false };
        let child = Self::new(CHILD, Random::of(seed, 1), shape, None);
        let shape = Shape { chains: 50, rows: 14, maps: 5, items: 30, nests: 4, breaks: true };
        Self::new("large", Random::of(seed, 2), shape, Some(child))
    }

    /// Five to twenty steps.
    pub(crate) fn small(seed: u64, n: u64) -> Self {
        let mut random = Random::of(seed, n << 8);
        let (chains, rows) = (2 + random.below(3), 2 + random.below(3));
        let shape =
            Shape { chains, rows, maps: random.below(2), items: random.below(4), nests: 0, breaks: false };
        Self::new("small", random, shape, None)
    }

    fn new(name: &'static str, random: Random, shape: Shape, child: Option<Self>) -> Self {
        let mut plan = Self { name, nodes: Vec::new(), child: child.map(Box::new), random };
        let mut before = Vec::new();
        for row in 0..shape.rows {
            before = (0..shape.chains).map(|chain| plan.link(&before, chain)).collect();
            let of = |many: u64| (row..many).step_by(usize::try_from(shape.rows).unwrap());
            for _ in of(shape.maps) {
                let many = shape.items + plan.random.below(shape.items / 2 + 1);
                plan.branch(&before, What::Map(many));
            }
            for n in of(shape.nests) {
                plan.branch(&before, if n == 0 { What::Nests(5) } else { What::Nest });
            }
            if shape.breaks && row == shape.rows / 2 {
                plan.branch(&before, What::Link(Fails::Always));
            }
        }
        plan
    }

    fn add(&mut self, needs: Vec<usize>, join: Join, what: What, condition: Option<(String, bool)>) -> usize {
        let done = needs.iter().filter(|need| self.nodes[**need].fate.is_done()).count();
        let wanted = match join {
            Join::All => done == needs.len(),
            Join::Any => done > 0 || needs.is_empty(),
            Join::AtLeast(many) => done >= usize::try_from(many).unwrap(),
            Join::AllDone => true,
        };
        let fate = match (wanted, &condition, &what) {
            (false, ..) => Fate::Unwanted,
            (_, Some((_, false)), _) => Fate::Skipped,
            (.., What::Link(Fails::Always)) => Fate::Settled,
            _ => Fate::Done,
        };
        let mut text = self.text(&what);
        text["needs"] = needs.iter().map(|need| Value::from(name(*need))).collect();
        text["join"] = serde_json::to_value(join).unwrap();
        if let Some((condition, _)) = condition {
            text["if"] = condition.into();
        }
        self.nodes.push(Node { needs, join, what, fate, text });
        self.nodes.len() - 1
    }

    /// A step that does something, as it is written in a file.
    fn text(&mut self, what: &What) -> Value {
        let millis = if self.random.chance(50) { 1 + self.random.below(6) } else { 0 };
        let list = |many: u64| Value::from((0..many).collect::<Vec<u64>>());
        let most = self.random.pick(&[None, Some(3), Some(10)]);
        let link = |n: Value, fails: Fails| json!({ "n": n, "millis": millis, "fails": fails });
        let mut text = match what {
            What::Link(fails) => json!({ "task": "link", "input": link(self.nodes.len().into(), *fails) }),
            What::Map(many) => {
                let map = json!({ "over": list(*many), "max_parallel": most });
                json!({ "task": "link", "map": map, "input": link("${item}".into(), Fails::Never) })
            }
            What::Nest => json!({ "workflow": CHILD }),
            What::Nests(many) => {
                json!({ "workflow": CHILD, "map": { "over": list(*many) }, "input": "${item}" })
            }
        };
        if matches!(what, What::Link(_)) && self.random.chance(8) {
            let key = format!("lane {}", self.random.below(3));
            text["lane"] = json!({ "key": key, "limit": 2 });
        }
        if self.random.chance(10) {
            text["priority"] = self.random.pick(&[-1, 1, 2]).into();
        }
        text
    }

    /// The next step of a chain, after the row `before`.
    fn link(&mut self, before: &[usize], chain: u64) -> usize {
        let fails = if self.random.chance(4) { Fails::Once } else { Fails::Never };
        let Some(own) = before.get(usize::try_from(chain).unwrap()).copied() else {
            return self.add(Vec::new(), Join::All, What::Link(fails), None);
        };
        let mut needs = vec![own];
        for chance in [25, 10] {
            if self.random.chance(chance) {
                needs.push(self.random.pick(before));
            }
        }
        needs.sort_unstable();
        needs.dedup();
        let is_done = self.nodes[own].fate.is_done();
        let join = match self.random.below(20) {
            0 | 1 => Join::Any,
            2 => Join::AtLeast(u32::try_from(needs.len().min(2)).unwrap()),
            3..=5 => Join::AllDone,
            // Most chains go on after a step that was left out.
            6..=16 if !is_done => Join::AllDone,
            _ => Join::All,
        };
        // What a condition looks at must be there.
        let condition = (join == Join::All && is_done && self.random.chance(12)).then(|| {
            let rest = self.random.pick(&[0, 1]);
            (format!("{}.n % 2 == {rest}", name(own)), own % 2 == rest)
        });
        self.add(needs, join, What::Link(fails), condition)
    }

    /// A step after one of the row `before`, and steps after it: those that need it, and one that only wants
    /// it to be over.
    fn branch(&mut self, before: &[usize], what: What) {
        let parent = self.random.pick(before);
        let join = if self.nodes[parent].fate.is_done() { Join::All } else { Join::AllDone };
        let node = self.add(vec![parent], join, what, None);
        let other = self.random.pick(before);
        self.add(vec![node], Join::All, What::Link(Fails::Never), None);
        self.add(vec![parent, node], Join::AtLeast(1), What::Link(Fails::Once), None);
        self.add(vec![other.min(node), other.max(node)], Join::AllDone, What::Link(Fails::Never), None);
    }

    pub(crate) fn definition(&self) -> Definition {
        let texts = self.nodes.iter().map(|node| node.text.clone());
        let steps: Map<String, Value> = (0..).map(name).zip(texts).collect();
        let retry = json!({ "max_attempts": 1000, "backoff": "fixed", "initial": "10ms" });
        let text = json!({ "name": self.name, "defaults": { "retry": retry }, "steps": steps });
        serde_json::from_value(text).unwrap()
    }

    /// The definition of the steps that are workflows.
    pub(crate) fn child(&self) -> Option<&Self> {
        self.child.as_deref()
    }

    /// The steps that fail for good.
    pub(crate) fn broken(&self) -> impl Iterator<Item = u32> {
        let settled = (0..).zip(&self.nodes).filter(|(_, node)| node.fate == Fate::Settled);
        settled.map(|(number, _)| number)
    }

    /// How many tasks there will be, items and those of workflows within included.
    pub(crate) fn tasks(&self) -> u64 {
        let of_child = self.child().map_or(0, Self::tasks);
        let of = |node: &Node| match node.what {
            _ if node.fate != Fate::Done => 1,
            What::Link(_) => 1,
            What::Map(many) => 1 + many,
            What::Nest => 1 + of_child,
            What::Nests(many) => 1 + many + many * of_child,
        };
        self.nodes.iter().map(of).sum()
    }

    /// Steps of each fate, for people to see that there are some.
    pub(crate) fn summary(&self) -> String {
        let many = |fate| self.nodes.iter().filter(|node| node.fate == fate).count();
        let [done, skipped, unwanted] = [Fate::Done, Fate::Skipped, Fate::Unwanted].map(many);
        let tasks = self.tasks();
        format!("{} steps ({done} run, {skipped} + {unwanted} are skipped), {tasks} tasks", self.nodes.len())
    }
}

/// Everything that is in a store, to compare plans with.
pub(crate) struct Found<'r> {
    pub(crate) records: BTreeMap<TaskId, &'r Record>,
    pub(crate) workflows: &'r [WorkflowRecord],
}

impl<'r> Found<'r> {
    pub(crate) fn new(records: &'r [Record], workflows: &'r [WorkflowRecord]) -> Self {
        Self { records: records.iter().map(|record| (record.task.id, record)).collect(), workflows }
    }

    /// I10, I11: the workflow has become what the plan says, every step of it once, and what handlers saw of
    /// their parents was final.
    pub(crate) fn check(&self, id: WorkflowId, plan: &Plan) {
        let own = self.workflows.iter().find(|record| record.workflow.id == id).unwrap();
        assert_eq!(own.workflow.state, WorkflowState::Complete, "{id}");
        for (number, node) in (0..).zip(&plan.nodes) {
            self.check_step(id, number, node, plan);
        }
        let tasks = u64::try_from(self.records.range(id.tasks()).count()).unwrap();
        let own = tasks + self.within(id).map(|child| self.check_child(child, plan)).sum::<u64>();
        assert_eq!(own, plan.tasks(), "{id}: nothing else is there");
    }

    /// The workflows that tasks of this one are.
    fn within(&self, id: WorkflowId) -> impl Iterator<Item = WorkflowId> {
        let is_within = move |parent: &TaskId| WorkflowId::of(*parent) == id;
        let children = self.workflows.iter().map(|record| &record.workflow);
        children.filter(move |child| child.parent.as_ref().is_some_and(is_within)).map(|child| child.id)
    }

    fn check_child(&self, child: WorkflowId, plan: &Plan) -> u64 {
        let plan = plan.child().unwrap();
        self.check(child, plan);
        plan.tasks()
    }

    fn check_step(&self, id: WorkflowId, number: u32, node: &Node, plan: &Plan) {
        let record = self.records[&id.step(number)];
        let what = format!("step {} of {id} ({node:?})", record.task.id);
        let state = match node.fate {
            Fate::Done => State::Completed,
            Fate::Skipped | Fate::Unwanted => State::Skipped,
            Fate::Settled => State::ResolvedManually,
        };
        assert_eq!(record.task.status.state, state, "{what}: {:?}", record.history);
        let ends = record.history.iter().filter(|entry| entry.to.is_final()).count();
        assert_eq!(ends, if node.fate == Fate::Settled { 2 } else { 1 }, "{what} has ended once");
        let ran = history::attempts(&record.history).len();
        assert!(node.fate != Fate::Unwanted || ran == 0, "{what}: nobody had it in hand");
        if node.fate != Fate::Done {
            return;
        }
        let result: Value = serde_json::from_str(record.result.as_ref().unwrap().as_str()).unwrap();
        match node.what {
            What::Link(_) => self.check_link(id, number.into(), node, record, &result),
            What::Map(many) => {
                for n in 0..many {
                    let item = u32::try_from(n).unwrap();
                    let item = self.records[&id.task(Place { step: number, item: Some(item) })];
                    assert_eq!(item.task.status.state, State::Completed, "{what}, item {n}");
                    self.check_link(id, n, node, item, &result[usize::try_from(n).unwrap()]);
                }
            }
            What::Nest => assert_eq!(self.children(record), 1, "{what}"),
            What::Nests(many) => {
                for item in 0..u32::try_from(many).unwrap() {
                    let item = self.records[&id.task(Place { step: number, item: Some(item) })];
                    assert_eq!(self.children(item), 1, "{what}");
                }
                let each = result.as_array().unwrap();
                let sinks = |one: &Value| one.as_object().is_some_and(|sinks| !sinks.is_empty());
                assert!(each.len() == usize::try_from(many).unwrap() && each.iter().all(sinks), "{what}");
                assert!(plan.child().is_some());
            }
        }
    }

    fn children(&self, record: &Record) -> usize {
        self.workflows.iter().filter(|child| child.workflow.parent == Some(record.task.id)).count()
    }

    /// The result is that of the last holder, and what it saw of its parents is what they have returned.
    fn check_link(&self, id: WorkflowId, n: u64, node: &Node, record: &Record, result: &Value) {
        let (task, status) = (record.task.id, &record.task.status);
        let own: Value = serde_json::from_str(record.result.as_ref().unwrap().as_str()).unwrap();
        assert_eq!(&own, result, "{task}: its result is where it belongs");
        let linked: Linked = serde_json::from_value(own).unwrap();
        let holder = status.worker.as_ref().unwrap().as_str();
        assert_eq!((linked.n, &*linked.done.worker, linked.done.lease), (n, holder, status.lease), "{task}");
        let mut saw = 0;
        for need in &node.needs {
            let parent = self.records[&id.step(u32::try_from(*need).unwrap())];
            let result = parent.result.as_ref().map(|result| digest(result.as_str()));
            match linked.saw[&name(*need)].as_ref() {
                Some(seen) => {
                    assert_eq!(Some(seen), result.as_ref(), "I10 {task}: it saw another result of {need}");
                    saw += 1;
                }
                // It did not have to wait for this one, or that was over without a result when it looked.
                None => {
                    assert!(node.join != Join::All, "I10 {task}: it did not see what {need} has returned");
                }
            }
        }
        let enough = match node.join {
            Join::All => node.needs.len(),
            Join::Any => node.needs.len().min(1),
            Join::AtLeast(many) => usize::try_from(many).unwrap(),
            Join::AllDone => 0,
        };
        assert!(saw >= enough, "I10 {task}: it saw {saw} parents where it needs {enough}");
        assert_eq!(linked.saw.len(), node.needs.len(), "{task}: it looked at all of its parents");
    }
}
