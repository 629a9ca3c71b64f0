//! One action: its inputs bound, its body performed and tried again, its output validated.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use tracing::Instrument;

use crate::action::{Failure, FailureKind, lasting};
use crate::program::{Action, OnError};
use crate::value::{Tags, Valid};

use super::blackboard::Bound;
use super::context::{ActionContext, CallLog, guarded};
use super::core::Core;
use super::event::What;
use super::llm_call::millis;
use super::scope::Scope;
use super::steps::{Done, Path, is_passing};
use super::trace;

/// An action that was performed, not yet recorded.
pub(super) struct Performed {
    /// Its index.
    pub(super) action: usize,
    /// What its inputs were bound to.
    pub(super) bound: Vec<Bound>,
    /// The objects it gave, or the failure for good.
    pub(super) result: Result<Vec<Valid>, Failure>,
    /// The failure that `on_error` made good with its output.
    pub(super) recovered_from: Option<Failure>,
    /// Tries.
    pub(super) attempts: u32,
    /// When it began, RFC 3339.
    pub(super) started_at: String,
    /// How long it took.
    pub(super) ms: u64,
    /// What its calls left behind.
    pub(super) log: CallLog,
}

/// An action that was started and has not been recorded: it is performed again until it ends.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    /// Its index.
    pub(super) action: usize,
    /// What its inputs are bound to, where that was settled before it began.
    pub(super) bound: Option<Vec<Bound>>,
    /// Which start of the action in this process it is, from 1.
    pub(super) start: u32,
    /// When it was started; its templates see this as `now()`, each time it is performed.
    pub(super) started_at: jiff::Timestamp,
    /// It was performed before: nothing that was told then is told again.
    pub(super) again: bool,
}

impl Performed {
    /// Whether a person has to answer before it can end.
    pub(super) fn waits(&self) -> bool {
        self.result.as_ref().is_err_and(Failure::is_waiting)
    }
}

/// Whether a failure ends the process whatever else there is.
pub(super) fn is_final(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Killed | FailureKind::Limit | FailureKind::Store)
}

/// Performs an action on the blackboard as `scope` has it.
pub(super) async fn perform(core: Arc<Core>, scope: Scope, flight: Flight) -> Performed {
    let span = trace::action(&core.agent.actions[flight.action]);
    let performed = perform_once(core, scope, flight).instrument(span.clone()).await;
    trace::acted(&span, performed.attempts, performed.result.as_ref().err());
    performed
}

async fn perform_once(core: Arc<Core>, scope: Scope, flight: Flight) -> Performed {
    let agent = core.agent.clone();
    let index = flight.action;
    let action = &agent.actions[index];
    let (started_at, started) = (flight.started_at.to_string(), Instant::now());
    let log: Arc<Mutex<CallLog>> = Arc::default();
    let bound = flight.bound.clone().or_else(|| scope.board.bind(&action.inputs));
    let missing = bound.is_none();
    let bound = bound.unwrap_or_default();
    let mut scope = scope.for_action(action).with_inputs(&action.inputs, &bound);
    scope.now = Some(flight.started_at);
    let (result, attempts) = if missing {
        (Err(Failure::new(FailureKind::Error, "an input is missing")), 0)
    } else {
        tokio::select! {
            biased;
            () = core.kill.killed() => (Err(Failure::new(FailureKind::Killed, "the process was killed")), 1),
            failure = core.ledger.out_of_time() => (Err(failure), 1),
            done = attempts(&core, &scope, action, &flight, &log) => done,
        }
    };
    let (result, recovered_from) = recover(&core, action, &scope, result);
    let log = std::mem::take(&mut *lock(&log));
    Performed { action: index, bound, result, recovered_from, attempts, started_at, ms: millis(started.elapsed()), log }
}

/// Tells that an action starts. What starts side by side is told before any of it is performed, so that it stands in the
/// journal together.
pub(super) fn tell_start(core: &Core, scope: &Scope, action: usize, bound: Option<&[Bound]>) {
    core.emit(|| {
        let action = &core.agent.actions[action];
        let bound = bound.map(<[Bound]>::to_vec).or_else(|| scope.board.bind(&action.inputs)).unwrap_or_default();
        What::ActionStarted { action: action.name.clone(), inputs: named_types(scope, action, &bound) }
    });
}

/// Names and types of what the inputs are bound to, for the event.
fn named_types(scope: &Scope, action: &Action, bound: &[Bound]) -> Vec<(String, String)> {
    let type_name = |at: &usize| scope.board.get(*at).map(|object| scope.agent.types.name(object.type_id).to_owned());
    let described = action.inputs.iter().zip(bound).filter_map(|(input, bound)| {
        let of = match bound {
            Bound::One(at) => type_name(at)?,
            Bound::All(all) => format!("{} of {}", all.len(), scope.agent.types.name(input.type_id)),
            Bound::Absent => return None,
        };
        Some((input.name.clone(), of))
    });
    described.collect()
}

/// Tries the body as often as `retry` says; returns the last result and the number of tries.
async fn attempts(
    core: &Arc<Core>,
    scope: &Scope,
    action: &Action,
    flight: &Flight,
    log: &Arc<Mutex<CallLog>>,
) -> (Result<Vec<Valid>, Failure>, u32) {
    let place = |attempt: u32| Path::of_action(&action.name, flight.start, attempt);
    // What was done before is not waited for again.
    let was_done = |place: &Path| flight.again && core.steps.has_any(place.text());
    if let Some(delay) = action.delay
        && !was_done(&place(1))
    {
        tokio::time::sleep(delay).await;
    }
    let mut pause = action.retry.backoff.min(action.retry.max);
    let mut attempt = 1;
    loop {
        let path = place(attempt);
        let end = format!("{}/end", path.text());
        // An attempt that failed is a step too: by itself it might come out otherwise, as one that took too long.
        let failure = match core.steps.done(&end) {
            Some(Done { result: Err(failure), log: left }) => {
                lock(log).append(left);
                failure
            }
            _ => {
                let own: Arc<Mutex<CallLog>> = Arc::default();
                let result = once(core, scope, action, &own, path).await;
                let left = std::mem::take(&mut *lock(&own));
                let failure = match result {
                    Ok(objects) => {
                        lock(log).append(left);
                        return (Ok(objects), attempt);
                    }
                    // Nothing came, and what the tools have published is the reason to plan again.
                    Err(failure) if failure.kind == FailureKind::Replan => {
                        lock(log).append(left);
                        return (Ok(Vec::new()), attempt);
                    }
                    Err(failure) => failure,
                };
                lock(log).append(left.clone());
                if attempt >= action.retry.attempts || !may_pass(failure.kind) {
                    return (Err(failure), attempt);
                }
                if let Err(failure) = core.complete_step(&end, Done { result: Err(failure.clone()), log: left }).await {
                    return (Err(failure), attempt);
                }
                core.emit(|| What::Retrying {
                    action: action.name.clone(),
                    what: "action".into(),
                    message: failure.message.clone(),
                    wait_ms: millis(pause),
                });
                failure
            }
        };
        debug_assert!(!failure.is_waiting(), "a wait is no failed attempt");
        if !was_done(&place(attempt + 1)) {
            tokio::time::sleep(pause).await;
        }
        let longer = pause.as_secs_f64() * action.retry.multiplier.max(1.0);
        pause = std::time::Duration::try_from_secs_f64(longer).unwrap_or(action.retry.max).min(action.retry.max);
        attempt += 1;
    }
}

fn lock(log: &Mutex<CallLog>) -> MutexGuard<'_, CallLog> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether trying again may help.
fn may_pass(kind: FailureKind) -> bool {
    use FailureKind::{Guardrail, Killed, Limit, Permission, Store, Waiting};
    !matches!(kind, Limit | Killed | Guardrail | Permission | Waiting | Store)
}

/// Performs the body once, under the action's timeout, and validates what it gives.
async fn once(
    core: &Arc<Core>,
    scope: &Scope,
    action: &Action,
    log: &Arc<Mutex<CallLog>>,
    path: Path,
) -> Result<Vec<Valid>, Failure> {
    let cx = ActionContext {
        core: core.clone(),
        action: Arc::from(action.name.as_str()),
        scope: scope.clone(),
        output: action.output.clone(),
        log: log.clone(),
        deadline: action.timeout.map(|timeout| Instant::now() + timeout),
        tool: None,
        path,
    };
    if let Some(stubbed) = core.run.stubs.as_ref().and_then(|stubs| stubs.action(&action.name)) {
        return validated(core, action, stubbed?);
    }
    let performed = guarded(&*action.body, &cx);
    let value = match action.timeout {
        None => performed.await?,
        Some(timeout) => tokio::time::timeout(timeout, performed).await.unwrap_or_else(|_| {
            let message = format!("`{}` did not end within {}", action.name, lasting(timeout));
            Err(Failure::new(FailureKind::Timeout, message))
        })?,
    };
    validated(core, action, value)
}

/// The objects of an action's value.
fn validated(core: &Core, action: &Action, value: serde_json::Value) -> Result<Vec<Valid>, Failure> {
    let agent = &core.agent;
    agent.validators.validate_output(&action.output, value, &**agent, Tags::Inferred).map_err(|violations| {
        let listed: Vec<String> = violations.iter().map(ToString::to_string).collect();
        let output = action.output.describe(&agent.types);
        Failure::new(FailureKind::Validation, format!("the output is no `{output}`: {}", listed.join("; ")))
    })
}

/// Puts the output of `on_error` in the place of a failure, where one is given.
fn recover(
    core: &Core,
    action: &Action,
    scope: &Scope,
    result: Result<Vec<Valid>, Failure>,
) -> (Result<Vec<Valid>, Failure>, Option<Failure>) {
    let failure = match result {
        Ok(objects) => return (Ok(objects), None),
        Err(failure) => failure,
    };
    match &action.on_error {
        OnError::Output(data) if !is_passing(&failure) => {
            let value = core.agent.templates.render_data(data, scope).map_err(Failure::from);
            (value.and_then(|value| validated(core, action, value)), Some(failure))
        }
        OnError::Output(_) | OnError::Replan | OnError::Fail => (Err(failure), None),
    }
}
