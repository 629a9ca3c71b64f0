//! A process is rebuilt from its journal: its records are folded through the same code that made them.

use std::sync::atomic::Ordering;

use crate::action::Failure;
use crate::planning::FactId;
use crate::program::PlannerKind;
use crate::prompt::Truth;
use crate::value::{NoRules, Shape, Tags, TypeId, Valid};

use super::act::{Flight, Performed};
use super::blackboard::Bound;
use super::context::CallLog;
use super::core::Core;
use super::decide::Disappointment;
use super::document::Status;
use super::journal::{
    BoundRecord, Created, DoneRecord, Left, LogRecord, ObjectRecord, PerformedRecord, RECORD_VERSION, Record, Round,
    Spent, StartedFlight,
};
use super::run::{Given, Process, Start};
use super::steps::Done;

/// Why a process cannot be rebuilt. Nothing of its journal is touched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The workflow has changed so that what the process has done has no place in it any more.
    #[error("the workflow has changed since the process began: {0}")]
    Changed(String),
    /// The journal says nothing that can be followed.
    #[error("the journal cannot be read: {0}")]
    Unreadable(String),
}

impl Left {
    /// What its account begins with.
    pub fn spent(&self) -> Spent {
        let mut spent = self.head.spent;
        spent.total = spent.own;
        spent.total += self.children;
        spent
    }

    /// What it was made from.
    ///
    /// # Errors
    /// When the journal does not say.
    pub fn created(&self) -> Result<&Created, RestoreError> {
        match self.records.first() {
            Some(Record::Created(created)) if created.v <= RECORD_VERSION => Ok(created),
            Some(Record::Created(created)) => Err(RestoreError::Unreadable(format!(
                "it is of version {}, and this program knows journals up to version {RECORD_VERSION}",
                created.v
            ))),
            _ => Err(RestoreError::Unreadable("it does not begin with how the process was made".to_owned())),
        }
    }
}

impl Process {
    /// A process as it was left: the same blackboard, marks, history and account. Actions in flight are performed again
    /// when it runs, and repeat no step that was completed.
    ///
    /// # Errors
    /// When the workflow has changed so that the journal does not fit it, or the journal cannot be read.
    pub fn restore(core: Core, left: Left) -> Result<Process, RestoreError> {
        let created = left.created()?.clone();
        let core = core.after(&left.head);
        core.is_silent.store(true, Ordering::Relaxed);
        let mut same_shape = core.index.shape_of(&core.agent) == created.shape;
        let start = start_of(&core, &created)?;
        let mut process = Process::new(core, start).map_err(|failure| RestoreError::Changed(failure.message))?;
        for record in left.records.into_iter().skip(1) {
            if let Record::Adopted { shape, .. } = &record {
                same_shape = process.core().index.shape_of(&process.core().agent) == shape;
            }
            process.fold(record, same_shape)?;
        }
        if process.status == Status::NotStarted && !process.in_flight.is_empty() {
            process.set_status(Status::Running);
        }
        process.core().is_silent.store(false, Ordering::Relaxed);
        Ok(process)
    }

    fn fold(&mut self, record: Record, same_shape: bool) -> Result<(), RestoreError> {
        match record {
            Record::Created(_) => return Err(RestoreError::Unreadable("the process was made twice".to_owned())),
            Record::Received { given } => {
                let given = given.iter().map(|object| given_of(self.core(), object));
                let given = given.collect::<Result<_, _>>()?;
                self.received(given);
            }
            Record::Started { flights, plan, round } => {
                self.let_all_in();
                if let Some(plan) = plan {
                    self.plans.push(plan);
                }
                self.stand_at(round, same_shape);
                for flight in flights {
                    let action = self.action_named(&flight.action)?;
                    self.starts[action] = flight.start;
                    let bound = flight.bound.map(|bound| bound.into_iter().map(Bound::from).collect());
                    let (start, started_at) = (flight.start, flight.at);
                    self.in_flight.push(Flight { action, bound, start, started_at, again: true });
                }
                self.set_status(Status::Running);
            }
            Record::Step { path, done } => {
                let done = self.done(done)?;
                self.core().steps.complete(&path, done);
            }
            Record::Begun { path } => self.core().steps.begin(&path),
            Record::Withdrawn { path } => self.core().steps.withdraw(&path),
            Record::Child { path, process } => self.core().steps.start_child(&path, &process),
            Record::Performed(performed) => {
                let performed = self.performed(performed)?;
                if let Some(at) = self.in_flight.iter().position(|flight| flight.action == performed.action) {
                    self.in_flight.remove(at);
                }
                if self.in_flight.is_empty() {
                    self.core().steps.clear();
                }
                self.record(performed);
            }
            Record::Asked { condition, bound, holds, round } => {
                let Some(at) = self.core().index.condition(&condition) else {
                    return Err(RestoreError::Changed(format!("the condition `{condition}` is gone")));
                };
                self.stand_at(round, same_shape);
                let truth = match holds {
                    Some(true) => Truth::True,
                    Some(false) => Truth::False,
                    None => Truth::Unknown,
                };
                self.mark_answer(at, (bound.into_iter().map(Bound::from).collect(), truth));
            }
            Record::Supervised { said, given, stand } => {
                let given = given.into_iter().map(|one| Ok((given_of(self.core(), &one.object)?, one.is_hidden)));
                let given = given.collect::<Result<Vec<_>, _>>()?;
                self.supervised(said, given, *stand);
            }
            Record::Greeted { content } => self.greeted(content),
            Record::Heard { message, before } => self.heard(message, before),
            Record::MessageDone => self.await_message(),
            Record::Waiting { pending } => {
                if let Some(until) = pending.until {
                    self.core().steps.wait_until(&pending.path, until);
                }
                self.pending = Some(*pending);
                self.set_status(Status::Waiting);
            }
            Record::Adopted { hidden, filled, cured, .. } => self.adopt_again(&hidden, filled, &cured),
            Record::Resumed => {
                self.pending = None;
                self.set_status(Status::Running);
            }
            Record::Ended { status, goal, action, failure } => self.end_again(status, goal, action, failure),
        }
        Ok(())
    }

    /// The end, which has followed already from an action that failed, or is told now.
    fn end_again(&mut self, status: Status, goal: Option<String>, action: Option<String>, failure: Option<Failure>) {
        self.pending = None;
        let goal = goal.and_then(|name| self.goals.iter().position(|goal| goal.name == name));
        if status == Status::Waiting || self.status == status {
            return;
        }
        // A process that waited, and was ended, ends.
        self.status = Status::Running;
        match (status, goal) {
            (Status::Completed, Some(goal)) => self.complete(goal),
            _ => self.finish(status, failure.map(|failure| (action, failure))),
        }
    }

    /// Where planning stood; numbers of another shape mean nothing now, and planning begins anew.
    fn stand_at(&mut self, round: Round, same_shape: bool) {
        self.tried_when_stuck = round.tried.iter().filter_map(|name| self.core().index.action(name)).collect();
        if !same_shape {
            self.rest.clear();
            self.expected.clear();
            self.disappointments.clear();
            return;
        }
        self.rest = round.rest;
        self.expected = round.expected.into_iter().map(|(at, fact, value)| (at, FactId(fact), value)).collect();
        let disappointment = |(operator, fact, changes, has_new_inputs)| Disappointment {
            operator,
            fact: FactId(fact),
            changes,
            has_new_inputs,
        };
        self.disappointments = round.disappointments.into_iter().map(disappointment).collect();
    }

    /// Where planning stands.
    fn round(&self) -> Round {
        let name = |action: &usize| self.core().agent.actions.get(*action).map(|action| action.name.clone());
        Round {
            tried: self.tried_when_stuck.iter().filter_map(name).collect(),
            rest: self.rest.clone(),
            expected: self.expected.iter().map(|(at, fact, value)| (*at, fact.0, *value)).collect(),
            disappointments: self
                .disappointments
                .iter()
                .map(|of| (of.operator, of.fact.0, of.changes, of.has_new_inputs))
                .collect(),
        }
    }

    fn action_named(&self, name: &str) -> Result<usize, RestoreError> {
        let at = self.core().index.action(name);
        at.ok_or_else(|| RestoreError::Changed(format!("the action `{name}` is gone")))
    }

    /// Puts the start of what is in flight into the journal.
    pub(super) fn put_started(&self, plan: Option<Vec<String>>) {
        let flight = |flight: &Flight| StartedFlight {
            action: self.core().agent.actions[flight.action].name.clone(),
            start: flight.start,
            at: flight.started_at,
            bound: flight.bound.as_ref().map(|bound| bound.iter().map(BoundRecord::from).collect()),
        };
        self.core().put(|| Record::Started {
            flights: self.in_flight.iter().filter(|flight| !flight.again).map(flight).collect(),
            plan,
            round: self.round(),
        });
    }

    /// Puts an action that has ended into the journal.
    pub(super) fn put_performed(&self, one: &Performed) {
        let core = self.core();
        let object = |object: &Valid| ObjectRecord {
            r#type: object.type_id.map(|id| core.type_name(id)),
            name: None,
            value: object.value.clone(),
        };
        core.put(|| {
            Record::Performed(PerformedRecord {
                action: core.agent.actions[one.action].name.clone(),
                bound: one.bound.iter().map(BoundRecord::from).collect(),
                objects: one.result.as_ref().ok().map(|objects| objects.iter().map(object).collect()),
                failure: one.result.as_ref().err().cloned(),
                recovered_from: one.recovered_from.clone(),
                attempts: one.attempts,
                started_at: one.started_at.clone(),
                ms: one.ms,
                log: LogRecord::new(&one.log, |id| core.type_name(id)),
            })
        });
    }

    /// Puts the answer to a condition into the journal.
    pub(super) fn put_asked(&self, condition: usize, (bound, truth): &(Vec<Bound>, Truth)) {
        let core = self.core();
        core.put(|| Record::Asked {
            condition: core.agent.conditions[condition].name.clone(),
            bound: bound.iter().map(BoundRecord::from).collect(),
            holds: match truth {
                Truth::True => Some(true),
                Truth::False => Some(false),
                Truth::Unknown => None,
            },
            round: self.round(),
        });
    }

    /// Puts the end of the process into the journal, with what its context keeps.
    pub(super) fn put_ended(&self) {
        let core = self.core();
        core.put(|| Record::Ended {
            status: self.status(),
            goal: self.goal.and_then(|goal| self.goals.get(goal)).map(|goal| goal.name.clone()),
            action: self.failure.as_ref().and_then(|(action, _)| action.clone()),
            failure: self.failure.as_ref().map(|(_, failure)| failure.clone()),
        });
        if core.parent.is_some() {
            return;
        }
        let stays = |id: TypeId| core.agent.keep.iter().any(|keep| self.board.is_a(id, *keep));
        let kept = self.board.visible().filter(|(_, object)| stays(object.type_id));
        let object = |object: &super::blackboard::Object| ObjectRecord {
            r#type: Some(core.type_name(object.type_id)),
            name: object.name.as_deref().map(str::to_owned),
            value: (*object.value).clone(),
        };
        core.pen.keep(kept.map(|(_, kept)| object(kept)).collect());
    }

    fn performed(&self, record: PerformedRecord) -> Result<Performed, RestoreError> {
        let core = self.core();
        let result = match (record.failure, record.objects) {
            (Some(failure), _) => Err(failure),
            (None, objects) => Ok(objects
                .unwrap_or_default()
                .into_iter()
                .map(|object| valid(core, object))
                .collect::<Result<_, _>>()?),
        };
        Ok(Performed {
            action: self.action_named(&record.action)?,
            bound: record.bound.into_iter().map(Bound::from).collect(),
            result,
            recovered_from: record.recovered_from,
            attempts: record.attempts,
            started_at: record.started_at,
            ms: record.ms,
            log: log(core, record.log)?,
        })
    }

    fn done(&self, record: DoneRecord) -> Result<Done, RestoreError> {
        let result = match record.failure {
            Some(failure) => Err(failure),
            None => Ok(record.value.unwrap_or_default()),
        };
        Ok(Done { result, log: log(self.core(), record.log)? })
    }
}

fn log(core: &Core, record: LogRecord) -> Result<CallLog, RestoreError> {
    let published = record.published.into_iter().map(|object| {
        let valid = valid(core, object)?;
        let id = valid.type_id.ok_or_else(|| RestoreError::Unreadable("an object has no type".to_owned()))?;
        Ok((id, valid.value))
    });
    Ok(CallLog { published: published.collect::<Result<_, RestoreError>>()?, llm: record.llm, tools: record.tools })
}

fn type_named(core: &Core, name: &str) -> Result<TypeId, RestoreError> {
    core.agent.types.id(name).ok_or_else(|| RestoreError::Changed(format!("the type `{name}` is gone")))
}

/// An object of the journal, if it still is what its type asks for. Its rules held when it came; they are not asked again.
fn valid(core: &Core, object: ObjectRecord) -> Result<Valid, RestoreError> {
    let Some(name) = object.r#type else { return Ok(Valid { value: object.value, type_id: None }) };
    let id = type_named(core, &name)?;
    let checked = core.agent.validators.validate_with(&Shape::named(id), object.value, &NoRules, Tags::Inferred);
    let valid = checked.map_err(|violations| {
        let listed: Vec<String> = violations.iter().map(ToString::to_string).collect();
        RestoreError::Changed(format!("an object is no `{name}` any more: {}", listed.join("; ")))
    })?;
    Ok(Valid { value: valid.value, type_id: Some(valid.type_id.unwrap_or(id)) })
}

/// An object that the process starts from.
fn given_of(core: &Core, object: &ObjectRecord) -> Result<Given, RestoreError> {
    let valid = valid(core, object.clone())?;
    let type_id = valid.type_id.ok_or_else(|| RestoreError::Unreadable("an object has no type".to_owned()))?;
    Ok(Given { type_id, name: object.name.clone(), value: valid.value })
}

/// What the process was made from.
fn start_of(core: &Core, created: &Created) -> Result<Start, RestoreError> {
    let given = created.given.iter().map(|object| given_of(core, object));
    let planners = [PlannerKind::Goap, PlannerKind::Utility, PlannerKind::Hybrid, PlannerKind::Supervisor];
    Ok(Start {
        given: given.collect::<Result<_, RestoreError>>()?,
        goal: created.goal.clone(),
        returns: created.returns.as_deref().map(|name| type_named(core, name)).transpose()?,
        planner: created.planner.as_deref().and_then(|word| planners.into_iter().find(|kind| kind.word() == word)),
    })
}
