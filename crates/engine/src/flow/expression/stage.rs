//! Where expressions are evaluated, over JSON and under a meter.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelOptional, CelString, CelUInt,
};
use cel::common::value::{CowVal, Val};
use cel::{Context, ExecutionError, FunctionContext};
use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, Config, DFA};
use regex_automata::nfa::thompson;
use serde_json::Value;
use windlass_core::limits;

use super::super::problem::quote;
use super::{ENV, Expression};

/// Units of work of one evaluation. One is a value, or 16 bytes of text, that is read; a copy costs
/// [`COPY`] of them. It is about a second without optimisation, a fifth of that with, and 100 MB at the very
/// most.
pub(super) const FUEL: usize = 4_000_000;

/// What it costs to copy rather than to look.
const COPY: usize = 4;

/// Units of all evaluations of one step: a condition, a list, and the input of each item. Ten of the largest
/// expressions, or 160 MB of items.
pub(in crate::flow) const STEP_FUEL: usize = 10 * FUEL;

/// What it costs to compile a pattern that was not seen before in this evaluation, and each of its states.
const PATTERN: usize = 20_000;
const PATTERN_STATE: usize = 8;

/// What it costs to find out that a pattern is too large: it is compiled until then.
const PATTERN_REFUSED: usize = PATTERN_BYTES / 4;

/// Bytes of a compiled pattern, and of what is remembered while it is looked for.
const PATTERN_BYTES: usize = 1 << 20;

/// How often that memory may overflow. A pattern that needs more would have to be followed state by state,
/// which can take a minute.
const PATTERN_OVERFLOWS: usize = 4;

/// Compiled patterns that are kept from one evaluation to the next.
const PATTERNS_KEPT: usize = 16;

/// Counts the work of the evaluations of one step.
struct Meter {
    /// What all evaluations together may use.
    most: usize,
    /// What earlier evaluations used.
    spent: AtomicUsize,
    used: AtomicUsize,
    is_empty: AtomicBool,
    written: AtomicUsize,
    patterns: Mutex<HashMap<String, Pattern>>,
}

/// A compiled pattern, with what was found out about it in this evaluation.
struct Pattern {
    dfa: DFA,
    cache: Cache,
    /// Whether this evaluation has paid for it.
    is_paid: bool,
}

impl Pattern {
    fn compile(pattern: &str) -> Option<Self> {
        let config = Config::new()
            .cache_capacity(PATTERN_BYTES)
            .skip_cache_capacity_check(true)
            .minimum_cache_clear_count(Some(PATTERN_OVERFLOWS))
            .unicode_word_boundary(true);
        let dfa = DFA::builder()
            .configure(config)
            .thompson(thompson::Config::new().nfa_size_limit(Some(PATTERN_BYTES)))
            .build(pattern)
            .ok()?;
        let cache = dfa.create_cache();
        Some(Self { dfa, cache, is_paid: false })
    }

    /// How many states the pattern has as an automaton.
    fn states(&self) -> usize {
        self.dfa.get_nfa().states().len()
    }

    /// Whether a text has a match. A byte that leads from a known state to a known one costs little; whatever
    /// leads elsewhere has all states of the automaton looked at, and is charged so, before it is done. The
    /// error is the meter's; `None` says that it cannot be told.
    fn is_match(&mut self, text: &str, meter: &Meter) -> Result<Option<bool>, ExecutionError> {
        let step = self.states() / 2 + 1;
        meter.charge(text.len() / 16 + 1)?;
        let Self { dfa, cache, .. } = self;
        let Ok(mut state) = dfa.start_state_forward(cache, &Input::new(text)) else { return Ok(None) };
        for (at, byte) in text.bytes().enumerate() {
            let known = match state.is_tagged() {
                true => None,
                false => Some(dfa.next_state_untagged(cache, state, byte)).filter(|next| !next.is_unknown()),
            };
            state = match known {
                Some(next) => next,
                None => {
                    meter.charge(step)?;
                    let Ok(next) = dfa.next_state(cache, state, byte) else { return Ok(None) };
                    next
                }
            };
            // A match is seen one byte late. One that ends within a character is none, and what comes after
            // it is not known here.
            if state.is_match() {
                return Ok(text.is_char_boundary(at).then_some(true));
            }
            if state.is_dead() || state.is_quit() {
                return Ok(state.is_dead().then_some(false));
            }
        }
        meter.charge(step)?;
        Ok(dfa.next_eoi_state(cache, state).ok().map(|end| end.is_match()))
    }
}

impl Meter {
    fn new(most: usize) -> Self {
        Self {
            most,
            spent: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            is_empty: AtomicBool::new(false),
            written: AtomicUsize::new(0),
            patterns: Mutex::default(),
        }
    }

    /// What this evaluation may use.
    fn limit(&self) -> usize {
        FUEL.min(self.most.saturating_sub(self.spent.load(Ordering::Relaxed)))
    }

    fn charge(&self, units: usize) -> Result<(), ExecutionError> {
        let used = self.used.load(Ordering::Relaxed).saturating_add(units);
        self.used.store(used, Ordering::Relaxed);
        if used > self.limit() {
            self.is_empty.store(true, Ordering::Relaxed);
            return Err(ExecutionError::function_error("meter", TOO_MUCH));
        }
        Ok(())
    }

    /// The next evaluation begins.
    fn refuel(&self) {
        let used = self.used.swap(0, Ordering::Relaxed);
        let spent = self.spent.load(Ordering::Relaxed).saturating_add(used);
        self.spent.store(spent, Ordering::Relaxed);
        self.written.store(0, Ordering::Relaxed);
        self.is_empty.store(spent > self.most, Ordering::Relaxed);
        let mut patterns = self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        if patterns.len() > PATTERNS_KEPT {
            patterns.clear();
        }
        // Each evaluation pays for what it uses, whether or not another has used it before: what an item
        // costs must not depend on others.
        for Pattern { dfa, cache, is_paid } in patterns.values_mut() {
            if std::mem::take(is_paid) {
                cache.reset(dfa);
            }
        }
    }

    /// Charges for a value. Loops pass over errors, so this has to be quick when nothing is left.
    fn charge_value(&self, value: &dyn Val, factor: usize) -> Result<(), ExecutionError> {
        let mut left = self.limit().saturating_sub(self.used.load(Ordering::Relaxed)) / factor + 1;
        let before = left;
        weigh(value, &mut left);
        self.charge((before - left) * factor)
    }

    fn matches(&self, text: &str, pattern: &str) -> Result<bool, ExecutionError> {
        let refused = |why: &str| {
            ExecutionError::function_error("matches", format!("the pattern {} {why}", quote(pattern)))
        };
        if self.is_empty.load(Ordering::Relaxed) {
            return Err(ExecutionError::function_error("meter", TOO_MUCH));
        }
        let mut patterns = self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        if !patterns.get(pattern).is_some_and(|known| known.is_paid) {
            self.charge(PATTERN)?;
            if !patterns.contains_key(pattern) {
                let Some(compiled) = Pattern::compile(pattern) else {
                    self.charge(PATTERN_REFUSED)?;
                    return Err(refused("cannot be read, or is too large"));
                };
                patterns.insert(pattern.into(), compiled);
            }
        }
        let Some(known) = patterns.get_mut(pattern) else { return Ok(false) };
        if !std::mem::replace(&mut known.is_paid, true) {
            self.charge(known.states() * PATTERN_STATE)?;
        }
        known.is_match(text, self)?.ok_or_else(|| refused("is too much work for this text"))
    }
}

const TOO_MUCH: &str = "it is too much work for an expression; do it in a step";

const TOO_MUCH_TOGETHER: &str = "the expressions of this step, with all its items, are too much work together; do some of it in another step";

/// Takes as much as there is of a value from what is left.
fn weigh(value: &dyn Val, left: &mut usize) {
    *left = left.saturating_sub(1);
    if *left == 0 {
        return;
    }
    if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        for item in list.inner() {
            if *left == 0 {
                return;
            }
            weigh(item.as_ref(), left);
        }
    } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        for (key, item) in map.inner() {
            if *left == 0 {
                return;
            }
            weigh(key.inner(), left);
            weigh(item.as_ref(), left);
        }
    } else if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        *left = left.saturating_sub(text.inner().len() / 16);
    }
}

type Function = Box<
    dyn for<'c, 'v> Fn(&mut FunctionContext<'c, 'v>) -> Result<CowVal<'c, 'v>, ExecutionError> + Send + Sync,
>;

fn first<'c, 'v>(call: &mut FunctionContext<'c, 'v>) -> Result<CowVal<'c, 'v>, ExecutionError> {
    match call.args.is_empty() {
        true => Err(ExecutionError::missing_argument_or_target()),
        false => Ok(call.args.swap_remove(0)),
    }
}

/// Where expressions are evaluated: variables, and the meter that they share.
pub(in crate::flow) struct Stage<'p, 'v> {
    context: Context<'p, 'v>,
    meter: Arc<Meter>,
}

impl<'p, 'v> Stage<'p, 'v> {
    /// A stage on which all evaluations together may use so many units.
    pub(in crate::flow) fn new(most: usize) -> Self {
        let meter = Arc::new(Meter::new(most));
        let mut context = Context::with_env(Arc::clone(&ENV));
        let mut add = |name: &str, function: Function| {
            // Fails only for names that the library has, and no name of its begins so.
            let _ = context.add_function(name, function);
        };
        let shared = Arc::clone(&meter);
        add(
            "@read",
            Box::new(move |call| {
                let value = first(call)?;
                shared.charge_value(value.as_ref(), 1)?;
                Ok(value)
            }),
        );
        let shared = Arc::clone(&meter);
        add(
            "@copy",
            Box::new(move |call| {
                let value = first(call)?;
                shared.charge_value(value.as_ref(), COPY)?;
                Ok(value)
            }),
        );
        let shared = Arc::clone(&meter);
        add(
            "@range",
            Box::new(move |call| {
                let weight = call.args.pop().and_then(|weight| {
                    let weight = *weight.downcast_ref::<CelInt>()?.inner();
                    usize::try_from(weight).ok()
                });
                let value = first(call)?;
                let count = value.as_sizer().map_or(1, |sizer| *sizer.size().inner());
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                shared.charge(count.saturating_mul(weight.unwrap_or(1)))?;
                shared.charge_value(value.as_ref(), COPY)?;
                // The keys of a map come in no order; in ours, the same expression always gives the same.
                let Some(map) = value.downcast_ref::<CelMap<'_>>() else { return Ok(value) };
                let mut keys: Vec<&CelMapKey<'_>> = map.inner().keys().collect();
                keys.sort_unstable();
                let keys: Vec<Box<dyn Val>> = keys.into_iter().map(|key| key_value(key)).collect();
                Ok(CowVal::owned(CelList::from(keys)))
            }),
        );
        let shared = Arc::clone(&meter);
        add(
            "@matches",
            Box::new(move |call| {
                let [text, pattern] = &call.args[..] else {
                    return Err(ExecutionError::invalid_argument_count(2, call.args.len()));
                };
                let text = text.downcast_ref::<CelString<'_>>();
                match (text, pattern.downcast_ref::<CelString<'_>>()) {
                    (Some(text), Some(pattern)) => {
                        let found = shared.matches(text.inner(), pattern.inner())?;
                        Ok(CowVal::owned(CelBool::from(found)))
                    }
                    _ => Err(ExecutionError::function_error("matches", "it takes a text and a pattern")),
                }
            }),
        );
        Self { context, meter }
    }

    /// Adds a variable.
    pub(in crate::flow) fn set(&mut self, name: &str, value: &'v Value) {
        self.context.add_variable_as_val(name, boxed(value));
    }

    /// Adds a variable that is a map.
    pub(in crate::flow) fn set_map(
        &mut self,
        name: &str,
        values: impl Iterator<Item = (&'v str, &'v Value)>,
    ) {
        let map: HashMap<CelMapKey<'v>, Box<dyn Val + 'v>> =
            values.map(|(key, value)| (CelMapKey::String(CelString::from(key)), boxed(value))).collect();
        self.context.add_variable_as_val(name, Box::new(CelMap::from(map)));
    }

    /// A stage upon this one, with variables of its own.
    pub(in crate::flow) fn inner<'b>(&'b self) -> Stage<'b, 'v> {
        Stage { context: self.context.new_inner_scope(), meter: Arc::clone(&self.meter) }
    }

    /// The next evaluation has a meter of its own.
    pub(in crate::flow) fn refuel(&self) {
        self.meter.refuel();
    }

    /// Charges for bytes that were written.
    pub(in crate::flow) fn charge_bytes(&self, bytes: usize) -> Result<(), String> {
        self.meter.charge(bytes / 16 * COPY).map_err(|_| self.exhausted().into())
    }

    /// Whether nothing is left of what all evaluations together may use. Another stage, with more, may come
    /// further.
    pub(in crate::flow) fn is_exhausted(&self) -> bool {
        let (spent, used) = (&self.meter.spent, &self.meter.used);
        spent.load(Ordering::Relaxed).saturating_add(used.load(Ordering::Relaxed)) > self.meter.most
    }

    fn exhausted(&self) -> &'static str {
        if self.is_exhausted() { TOO_MUCH_TOGETHER } else { TOO_MUCH }
    }

    /// The value of an expression.
    pub(in crate::flow) fn value(&self, expression: &Expression) -> Result<Value, String> {
        let evaluated = catch_unwind(AssertUnwindSafe(|| {
            let value =
                cel::Value::resolve_val(&expression.tree, &self.context).map_err(|error| say(&error))?;
            json(value.as_ref(), &self.meter.written)
        }));
        let evaluated = evaluated.unwrap_or_else(|_| Err("it cannot be evaluated".into()));
        // Some operators pass over errors of their operands; this one counts in any case.
        let evaluated = match self.meter.is_empty.load(Ordering::Relaxed) {
            true => Err(self.exhausted().into()),
            false => evaluated,
        };
        evaluated.map_err(|error| format!("{}: {error}", quote(expression.source.trim())))
    }
}

fn key_value(key: &CelMapKey<'_>) -> Box<dyn Val> {
    match key.clone().into_static() {
        CelMapKey::Bool(key) => Box::new(key),
        CelMapKey::Int(key) => Box::new(key),
        CelMapKey::String(key) => Box::new(key),
        CelMapKey::UInt(key) => Box::new(key),
    }
}

/// JSON as the library has it. Whole numbers are `int`, those that do not fit `uint`, all others `double`.
fn boxed<'v>(value: &'v Value) -> Box<dyn Val + 'v> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(truth) => Box::new(CelBool::from(*truth)),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Box::new(CelInt::from(number)),
            (None, Some(number)) => Box::new(CelUInt::from(number)),
            (None, None) => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(items) => {
            let items: Vec<Box<dyn Val + 'v>> = items.iter().map(boxed).collect();
            Box::new(CelList::from(items))
        }
        Value::Object(entries) => {
            let entries: HashMap<CelMapKey<'v>, Box<dyn Val + 'v>> = entries
                .iter()
                .map(|(key, value)| (CelMapKey::String(CelString::from(key.as_str())), boxed(value)))
                .collect();
            Box::new(CelMap::from(entries))
        }
    }
}

/// A result as JSON. `written` counts bytes over all results of one evaluation.
fn json(value: &dyn Val, written: &AtomicUsize) -> Result<Value, String> {
    let text = value.downcast_ref::<CelString<'_>>();
    let bytes = text.map_or(1, |text| text.inner().len());
    if written.fetch_add(bytes, Ordering::Relaxed) + bytes > limits::JSON_BYTES {
        return Err(format!("the result has more than {} bytes", limits::JSON_BYTES));
    }
    Ok(if let Some(text) = text {
        text.inner().into()
    } else if let Some(truth) = value.downcast_ref::<CelBool>() {
        (*truth.inner()).into()
    } else if let Some(number) = value.downcast_ref::<CelInt>() {
        (*number.inner()).into()
    } else if let Some(number) = value.downcast_ref::<CelUInt>() {
        (*number.inner()).into()
    } else if let Some(number) = value.downcast_ref::<CelDouble>() {
        let number = serde_json::Number::from_f64(*number.inner());
        Value::Number(number.ok_or("the number has no form in JSON")?)
    } else if value.downcast_ref::<CelNull>().is_some() {
        Value::Null
    } else if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        let items: Result<Vec<Value>, String> =
            list.inner().iter().map(|item| json(item.as_ref(), written)).collect();
        Value::Array(items?)
    } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        let mut entries: Vec<_> = map.inner().iter().collect();
        entries.sort_unstable_by(|one, other| one.0.cmp(other.0));
        let mut object = serde_json::Map::new();
        for (key, value) in entries {
            let CelMapKey::String(key) = key else {
                return Err("an object has a key that is not a text; use string()".into());
            };
            written.fetch_add(key.inner().len(), Ordering::Relaxed);
            object.insert(key.inner().into(), json(value.as_ref(), written)?);
        }
        Value::Object(object)
    } else if value.downcast_ref::<CelOptional<'_>>().is_some() {
        return Err("it is a value that may be absent; say what to use then, with .orValue()".into());
    } else {
        return Err(format!("it is of type {}, which has no form in JSON", value.get_type().name()));
    })
}

/// An error of the library in words. Values are not shown: they may be long, and maps have no order.
fn say(error: &ExecutionError) -> String {
    let type_name = |name: &str| match name {
        "null_type" => "null".to_string(),
        name => name.split('(').next().unwrap_or(name).to_string(),
    };
    match error {
        ExecutionError::NoSuchKey(key) => {
            let key = quote(key);
            format!("there is no field {key}; has() tells, and .?field.orValue() gives something else")
        }
        ExecutionError::UndeclaredReference(name) => format!("{} is not known here", quote(name)),
        ExecutionError::NoSuchOverload(overload) => {
            let types: Vec<String> = overload.argument_types().iter().map(|name| type_name(name)).collect();
            match overload.function() {
                "_._" | "_?._" => format!("{} has no fields", types.first().map_or("it", String::as_str)),
                function => {
                    let function = function.trim_matches(|c| c == '_' || c == '@');
                    format!("{function} cannot be used with {}", types.join(" and "))
                }
            }
        }
        ExecutionError::UnsupportedBinaryOperator(operator, one, other) => {
            let (one, other) = (one.type_of().to_string(), other.type_of().to_string());
            let plain = |name: String| if name == "float" { "double".into() } else { name };
            let (one, other) = (plain(one), plain(other));
            format!("{operator} cannot be used with {one} and {other}; double() and int() convert numbers")
        }
        ExecutionError::ValuesNotComparable(one, other) => {
            format!("{} and {} cannot be compared", one.type_of(), other.type_of())
        }
        ExecutionError::UnexpectedType { got, want } => {
            format!("it is {}, not {}", type_name(got), type_name(want))
        }
        ExecutionError::FunctionError { message, .. } => {
            let end = message.floor_char_boundary(300);
            message[..end].replace('\n', " ")
        }
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => "division by zero".into(),
        ExecutionError::Overflow(operator, ..) => format!("{operator} gives a number that is too large"),
        ExecutionError::IndexOutOfBounds(_) => "there are not so many elements".into(),
        ExecutionError::DuplicateKey(_) => "an object has the same key twice".into(),
        ExecutionError::UnsupportedKeyType(_) => "a key is not a text or a number".into(),
        ExecutionError::InvalidArgumentCount { expected, actual } => {
            format!("a function takes {expected} arguments, not {actual}")
        }
        ExecutionError::UnsupportedIndex(..) => "it has no elements of that kind".into(),
        _ => "it cannot be evaluated".into(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::print_stdout)]
mod tests;
