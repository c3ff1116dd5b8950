//! What is done to an expression before it can be evaluated: what it refers to is found, and the meter is put
//! in.

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::common::types::CelInt;

use super::super::problem::{did_you_mean, quote};
use super::{References, Refused};

/// Loops within loops.
const LOOPS: usize = 2;

/// What can be called, for advice.
const FUNCTIONS: [&str; 24] = [
    "all",
    "bool",
    "bytes",
    "contains",
    "double",
    "dyn",
    "endsWith",
    "exists",
    "exists_one",
    "filter",
    "has",
    "hasValue",
    "int",
    "map",
    "matches",
    "none",
    "of",
    "optMap",
    "orValue",
    "size",
    "startsWith",
    "string",
    "type",
    "uint",
];

/// Walks through an expression once: finds what it refers to, and puts the meter in. Recursion is bounded by
/// the check of the text.
pub(super) struct Rewrite<'a> {
    source: &'a str,
    references: References,
    /// Variables of the loops around.
    bound: Vec<String>,
    loops: usize,
}

impl<'a> Rewrite<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Self { source, references: References::default(), bound: Vec::new(), loops: 0 }
    }

    /// Rewrites the whole, and says what it refers to.
    pub(super) fn run(mut self, tree: &mut IdedExpr) -> Result<References, Refused> {
        self.walk(tree)?;
        Ok(self.references)
    }

    fn is_steps(&self, expr: &IdedExpr) -> bool {
        matches!(&expr.expr, Expr::Ident(name) if name.trim_start_matches('.') == "steps" && !self.bound.contains(name))
    }

    /// Walks and puts the meter around. Literals cost what the text costs, and accumulators are the loop's
    /// own.
    fn metered(&mut self, expr: &mut IdedExpr, meter: &str) -> Result<(), Refused> {
        self.walk(expr)?;
        let is_free = match &expr.expr {
            Expr::Literal(_) => true,
            Expr::Ident(name) => name.starts_with('@'),
            _ => false,
        };
        if !is_free {
            wrap(expr, meter, Vec::new());
        }
        Ok(())
    }

    fn walk(&mut self, expr: &mut IdedExpr) -> Result<(), Refused> {
        match &mut expr.expr {
            Expr::Literal(_) | Expr::Unspecified => {}
            Expr::Ident(name) => {
                let free = name.trim_start_matches('.');
                if !free.starts_with('@') && !self.bound.contains(name) {
                    self.references.any_step |= free == "steps";
                    self.references.names.insert(free.into());
                }
            }
            Expr::Select(select) => {
                if self.is_steps(&select.operand) {
                    self.references.steps.insert(select.field.clone());
                    self.references.names.insert("steps".into());
                } else {
                    self.walk(&mut select.operand)?;
                }
            }
            Expr::Call(call) => self.call(call)?,
            Expr::List(list) => {
                for element in &mut list.elements {
                    self.metered(element, "@copy")?;
                }
            }
            Expr::Map(map) => {
                for entry in &mut map.entries {
                    if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                        self.metered(&mut entry.key, "@copy")?;
                        self.metered(&mut entry.value, "@copy")?;
                    }
                }
            }
            Expr::Struct(message) => {
                let problem = format!("there is no type {:?} in {}", message.type_name, quote(self.source));
                return Err(Refused::new(problem, "write an object such as {\"a\": 1}"));
            }
            Expr::Comprehension(each) => {
                self.metered(&mut each.accu_init, "@copy")?;
                self.walk(&mut each.iter_range)?;
                self.loops += 1;
                if self.loops > LOOPS {
                    let advice = format!("at most {LOOPS} are possible; do it in a step");
                    let problem =
                        format!("there are loops within loops within loops in {}", quote(self.source));
                    return Err(Refused::new(problem, advice));
                }
                let outer = self.bound.len();
                self.bound.extend([each.iter_var.clone(), each.accu_var.clone()]);
                self.bound.extend(each.iter_var2.clone());
                let mut weight = 1;
                for part in [&mut each.loop_cond, &mut each.loop_step, &mut each.result] {
                    self.walk(part)?;
                    weight += nodes(part);
                }
                self.bound.truncate(outer);
                self.loops -= 1;
                let weight = i64::try_from(weight).unwrap_or(i64::MAX);
                let weight = Expr::Literal(LiteralValue::Int(CelInt::from(weight)));
                wrap(&mut each.iter_range, "@range", vec![IdedExpr { id: 0, expr: weight }]);
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &mut CallExpr) -> Result<(), Refused> {
        let name = call.func_name.clone();
        let is_word = name.starts_with(|first: char| first.is_ascii_alphabetic());
        if is_word && !ENV_WORDS.contains(&&*name) && !FUNCTIONS.contains(&&*name) {
            let advice = did_you_mean(&name, FUNCTIONS.into_iter())
                .unwrap_or_else(|| format!("possible are {}", FUNCTIONS.join(", ")));
            return Err(Refused::new(
                format!("there is no function {name:?} in {}", quote(self.source)),
                advice,
            ));
        }
        let is_namespace =
            |target: &IdedExpr| matches!(&target.expr, Expr::Ident(name) if name == "optional");
        if name == "matches" {
            // Our own, which keeps patterns and bounds them.
            call.func_name = "@matches".into();
            if let Some(target) = call.target.take() {
                call.args.insert(0, *target);
            }
        }
        match &*name {
            operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT
                if call.args.first().is_some_and(|operand| self.is_steps(operand)) =>
            {
                match call.args.get(1).map(|index| &index.expr) {
                    Some(Expr::Literal(LiteralValue::String(step))) => {
                        self.references.steps.insert(step.inner().into());
                        self.references.names.insert("steps".into());
                    }
                    _ => call.args.iter_mut().try_for_each(|arg| self.walk(arg))?,
                }
            }
            operators::CONDITIONAL
            | operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT
            | operators::NOT_STRICTLY_FALSE
            | operators::NEGATE
            | operators::INDEX => call.args.iter_mut().try_for_each(|arg| self.walk(arg))?,
            operators::ADD if matches!(&call.args[0].expr, Expr::Ident(name) if name.starts_with('@')) => {
                // What `map` and `filter` are made of: the library knows this form and appends in place.
                call.args.iter_mut().try_for_each(|arg| self.walk(arg))?;
            }
            _ => {
                let copies =
                    [operators::ADD, operators::OPT_INDEX, operators::OPT_SELECT, "of", "or", "orValue"];
                let meter = if copies.contains(&&*name) { "@copy" } else { "@read" };
                if let Some(target) = call.target.as_mut().filter(|target| !is_namespace(target)) {
                    self.metered(target, meter)?;
                }
                call.args.iter_mut().try_for_each(|arg| self.metered(arg, meter))?;
            }
        }
        Ok(())
    }
}

/// Functions that are known but not worth advising.
const ENV_WORDS: [&str; 4] = ["ofNonZeroValue", "optFlatMap", "or", "value"];

/// Puts a call around an expression.
fn wrap(expr: &mut IdedExpr, function: &str, more: Vec<IdedExpr>) {
    let inner = std::mem::take(expr);
    expr.id = inner.id;
    let args = std::iter::once(inner).chain(more).collect();
    expr.expr = Expr::Call(CallExpr { func_name: function.into(), target: None, args });
}

/// How many nodes an expression has.
fn nodes(expr: &IdedExpr) -> usize {
    1 + match &expr.expr {
        Expr::Select(select) => nodes(&select.operand),
        Expr::Call(call) => {
            call.target.as_deref().map_or(0, nodes) + call.args.iter().map(nodes).sum::<usize>()
        }
        Expr::List(list) => list.elements.iter().map(nodes).sum(),
        Expr::Map(map) => {
            let entry = |entry: &EntryExpr| match entry {
                EntryExpr::MapEntry(entry) => nodes(&entry.key) + nodes(&entry.value),
                EntryExpr::StructField(field) => nodes(&field.value),
            };
            map.entries.iter().map(|it| entry(&it.expr)).sum()
        }
        Expr::Comprehension(each) => {
            let parts = [&each.iter_range, &each.accu_init, &each.loop_cond, &each.loop_step, &each.result];
            parts.into_iter().map(nodes).sum()
        }
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) => 0,
    }
}
