//! The process itself: its state, and the loop.

use std::sync::{Arc, PoisonError};

use futures::future::join_all;
use serde_json::Value;
use tracing::Instrument;

use crate::action::{Failure, FailureKind};
use crate::decl::workflow::PlannerKind;
use crate::planning::{self, FactId, Plan, State, Supplier};
use crate::program::{Agent, Goal, Number};
use crate::prompt::Truth;
use crate::value::{Output, OutputKind, TypeId};

use super::act::{Flight, Performed, is_final, perform, tell_start};
use super::ask;
use super::blackboard::{Blackboard, Bound};
use super::chat::Talk;
use super::core::Core;
use super::decide::{Decision, Disappointment, Seen};
use super::document::{BoardEntry, Document, FailureNote, HistoryEntry, Status, Typed, UsageTotals, Waiting};
use super::event::What;
use super::journal::{Created, ObjectRecord, RECORD_VERSION, Record};
use super::ledger::Next;
use super::scope::{Marks, Scope};
use super::steps::{Path, Pending};
use super::supervisor::Supervision;
use super::trace;

/// An object that a process starts from, validated.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// Its concrete type.
    pub type_id: TypeId,
    /// The name it is bound under.
    pub name: Option<String>,
    /// Its value.
    pub value: Value,
}

/// What a process starts with.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Objects for the blackboard, oldest first.
    pub given: Vec<Given>,
    /// The one goal to reach, by name; all of them otherwise.
    pub goal: Option<String>,
    /// The type of the result: goals that output it, or a goal made for it.
    pub returns: Option<TypeId>,
    /// The planner, instead of the agent's.
    pub planner: Option<PlannerKind>,
}

/// What a run was started for, by name: it holds under a changed program too.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) goal: Option<String>,
    pub(super) returns: Option<String>,
    pub(super) planner: Option<PlannerKind>,
}

/// One run of an agent.
pub struct Process {
    pub(super) core: Arc<Core>,
    pub(super) status: Status,
    pub(super) board: Arc<Blackboard>,
    pub(super) marks: Arc<Marks>,
    /// How often the blackboard or a condition has changed.
    pub(super) changes: u64,
    /// The planning domain: the agent's, or one with the goal of `returns`.
    pub(super) domain: Arc<planning::Compiled>,
    pub(super) planner: PlannerKind,
    /// What the run was started for.
    pub(super) wanted: Wanted,
    /// The newest reload that was told of and not taken.
    pub(super) refused: u64,
    /// The goals of the domain, in its order.
    pub(super) goals: Vec<Goal>,
    /// The goals that this run is about, by position; all of them when `None`.
    pub(super) only_goals: Option<Vec<usize>>,
    /// Actions that have failed for good.
    pub(super) out: Vec<usize>,
    /// The first failure after which another way was sought.
    pub(super) first_failure: Option<(String, Failure)>,
    /// Facts that the last step was to bring: operator, fact, value.
    pub(super) expected: Vec<(usize, FactId, bool)>,
    /// Effects that did not come.
    pub(super) disappointments: Vec<Disappointment>,
    /// By action: the object that its trigger has run for last.
    pub(super) triggered: Vec<Option<usize>>,
    /// By action: the objects of its last run.
    pub(super) produced: Vec<Vec<usize>>,
    /// By action: what its inputs were bound to when it ran last.
    pub(super) ran_on: Vec<Vec<Bound>>,
    /// The state that the process is in: the position of its object.
    pub(super) state: Option<usize>,
    /// The `on_stuck` actions that were tried.
    pub(super) tried_when_stuck: Vec<usize>,
    /// The first plan, and each that differs from the rest of the one before.
    pub(super) plans: Vec<Vec<String>>,
    /// What is left of the plan in force, as operators.
    pub(super) rest: Vec<usize>,
    /// The plan whose first step was performed last, and the facts that it was made for.
    pub(super) in_force: Option<(State, Plan)>,
    pub(super) history: Arc<Vec<HistoryEntry>>,
    /// Actions that were started and are not in the history yet: they are performed before anything else.
    pub(super) in_flight: Vec<Flight>,
    /// How often each action was started.
    pub(super) starts: Vec<u32>,
    /// How often each condition was answered.
    pub(super) asked: Vec<u32>,
    /// What the process waits for.
    pub(super) pending: Option<Pending>,
    /// What the supervisor has said and been told, under the planner of this name.
    pub(super) supervision: Option<Supervision>,
    /// What the process starts from and has yet to pass the guardrails.
    pub(super) arriving: Vec<Given>,
    /// Where the chat is, for an agent that is one.
    pub(super) talk: Option<Talk>,
    /// The goal that was reached.
    pub(super) goal: Option<usize>,
    pub(super) result: Option<Typed>,
    /// What went wrong, and in which action.
    pub(super) failure: Option<(Option<String>, Failure)>,
}

impl Process {
    /// A process that has done nothing yet.
    ///
    /// # Errors
    /// When the goal is not one of the agent's, or nothing can ever give the type of the result.
    pub fn new(core: Core, mut start: Start) -> Result<Process, Failure> {
        let core = Arc::new(core);
        let agent = core.agent.clone();
        let talk = Talk::begin(agent.chat.as_ref(), agent.types.id("UserMessage"), &mut start.given);
        let arriving = super::receive::held_back(&agent, &mut start.given);
        let actions = agent.actions.len();
        let mut process = Process {
            status: Status::NotStarted,
            board: Arc::new(Blackboard::new(core.index.clone())),
            marks: Arc::new(Marks::new(&agent)),
            changes: 0,
            domain: agent.domain.clone(),
            planner: start.planner.unwrap_or(agent.planner),
            wanted: Wanted {
                goal: start.goal.clone(),
                returns: start.returns.map(|id| agent.types.name(id).to_owned()),
                planner: start.planner,
            },
            refused: 0,
            goals: agent.goals.clone(),
            only_goals: None,
            out: Vec::new(),
            first_failure: None,
            expected: Vec::new(),
            disappointments: Vec::new(),
            triggered: vec![None; actions],
            produced: vec![Vec::new(); actions],
            ran_on: vec![Vec::new(); actions],
            state: None,
            tried_when_stuck: Vec::new(),
            plans: Vec::new(),
            rest: Vec::new(),
            in_force: None,
            history: Arc::default(),
            in_flight: Vec::new(),
            starts: vec![0; actions],
            asked: vec![0; agent.conditions.len()],
            pending: None,
            supervision: None,
            arriving,
            talk,
            goal: None,
            result: None,
            failure: None,
            core,
        };
        process.choose_goals(start.goal.as_deref(), start.returns)?;
        let (goal, returns) = (start.goal.clone(), start.returns.map(|id| process.core.type_name(id)));
        process.core.put(|| {
            let given = start.given.iter().chain(&process.arriving);
            Record::Created(Created {
                v: RECORD_VERSION,
                agent: agent.name.clone(),
                shape: process.core.index.shape_of(&agent).to_owned(),
                depth: process.core.depth,
                goal,
                returns,
                planner: start.planner.map(|planner| planner.word().to_owned()),
                given: given.map(|given| process.object_record(given)).collect(),
                settings: if process.core.parent.is_none() { process.core.run.kept.clone() } else { Value::Null },
            })
        });
        let created = || What::ProcessCreated { agent: agent.name.clone(), parent: process.core.parent.clone() };
        process.core.emit(created);
        process.place(start.given);
        Ok(process)
    }

    /// An object that the process starts from, for the journal.
    pub(super) fn object_record(&self, given: &Given) -> ObjectRecord {
        ObjectRecord {
            r#type: Some(self.core.type_name(given.type_id)),
            name: given.name.clone(),
            value: given.value.clone(),
        }
    }

    /// Puts objects that the process starts from on the blackboard.
    pub(super) fn place(&mut self, given: Vec<Given>) {
        for given in given {
            let at = self.add(given.type_id, given.name, given.value);
            if self.core.agent.types.is_state(given.type_id) {
                self.enter(at);
            }
        }
    }

    /// Restricts the run to a goal, or to goals with a type of result.
    fn choose_goals(&mut self, goal: Option<&str>, returns: Option<TypeId>) -> Result<(), Failure> {
        let agent = self.core.agent.clone();
        self.choose_goals_of(&agent, goal, returns)
    }

    /// The same for an agent that is about to take the place of the process's own.
    pub(super) fn choose_goals_of(
        &mut self,
        agent: &Arc<Agent>,
        goal: Option<&str>,
        returns: Option<TypeId>,
    ) -> Result<(), Failure> {
        if let Some(name) = goal {
            let Some(index) = self.goals.iter().position(|goal| goal.name == name) else {
                let names = self.goals.iter().map(|goal| goal.name.as_str());
                let help = crate::diag::suggest::near_or_all(name, names, "its goals");
                let message = format!("the agent `{}` has no goal `{name}`; {help}", agent.name);
                return Err(Failure::new(FailureKind::Error, message));
            };
            self.only_goals = Some(vec![index]);
        }
        let Some(returns) = returns else { return Ok(()) };
        let types = &agent.types;
        let gives = |goal: &Goal| goal.output.types().iter().any(|id| types.is_subtype(*id, returns));
        let fitting: Vec<usize> = (0..self.goals.len()).filter(|at| gives(&self.goals[*at])).collect();
        if !fitting.is_empty() {
            self.only_goals = Some(fitting);
            return Ok(());
        }
        self.add_goal_of_type(agent, returns)
    }

    /// A goal of this run's own: an object of the type is there.
    fn add_goal_of_type(&mut self, agent: &Arc<Agent>, id: TypeId) -> Result<(), Failure> {
        let name = agent.types.name(id).to_owned();
        let has = crate::program::Fact::Has { type_id: id, count: 1 };
        let Some(fact) = agent.facts.iter().position(|fact| *fact == has) else {
            let message = format!("no action of the agent `{}` outputs `{name}`", agent.name);
            return Err(Failure::new(FailureKind::Error, message));
        };
        let mut domain = self.domain.domain().clone();
        let goal_name = format!("returns {name}");
        let pre = vec![(FactId(fact as u32), true)];
        domain.goals.push(planning::Goal { name: goal_name.clone(), pre, value: 0.0 });
        let compiled = domain.compile().map_err(|why| Failure::new(FailureKind::Error, why.to_string()))?;
        self.domain = Arc::new(compiled);
        self.only_goals = Some(vec![self.goals.len()]);
        self.goals.push(Goal {
            name: goal_name,
            description: None,
            output: Output::new(OutputKind::One(id)),
            action: None,
            value: Number::Fixed(0.0),
            export: false,
        });
        Ok(())
    }

    /// Runs to the end.
    pub async fn run(&mut self) -> Status {
        let span = trace::process(&self.core);
        self.run_on().instrument(span.clone()).await;
        trace::halted(&span, self);
        self.status
    }

    async fn run_on(&mut self) {
        while !self.has_ended() {
            self.tick().await;
        }
        if let Err(failure) = self.core.hand_on().await
            && self.status != Status::Failed
        {
            // The end, or the question, was not kept: whoever resumes the process comes to it again.
            (self.status, self.pending) = (Status::Failed, None);
            self.failure = Some((None, failure));
        }
    }

    /// One round: observe, stop if a goal holds or a limit is reached, plan, act.
    pub async fn tick(&mut self) {
        self.set_status(Status::Running);
        if !self.in_flight.is_empty() {
            let scope = self.scope();
            return Box::pin(self.perform_in_flight(scope)).await;
        }
        if !self.arriving.is_empty() {
            return self.receive().await;
        }
        if self.talk.is_some() && self.chat_round().await {
            return;
        }
        self.take_newer();
        let seen = self.observe();
        if let Some(goal) = self.reached(&seen) {
            if self.is_reply(goal) && self.message_done(None) {
                return;
            }
            return self.complete(goal);
        }
        if let Some((status, failure)) = self.ended_from_outside() {
            return self.finish(status, Some((None, failure)));
        }
        let planning = trace::planning(self);
        let decision = match planning.in_scope(|| self.decide(&seen)) {
            // On the heap, as all that a round awaits: processes stand in processes, and each has its rounds on one stack.
            Decision::Supervise => Box::pin(self.supervise(&seen).instrument(planning.clone())).await,
            decision => decision,
        };
        trace::decided(&planning, self, &decision);
        drop(planning);
        match decision {
            Decision::Supervise | Decision::Nothing => {}
            Decision::Act(operators, plan) => Box::pin(self.act(seen, operators, plan)).await,
            Decision::Ask(condition) => Box::pin(self.ask(seen.scope, condition)).await,
            Decision::Done if self.message_done(None) => {}
            Decision::Done => self.finish(Status::Completed, None),
            Decision::Stuck(why) => match self.when_stuck(&seen) {
                Some(operator) => Box::pin(self.act(seen, vec![operator], None)).await,
                None if self.message_done(Some(why.clone())) => {}
                None => self.give_up(why),
            },
            Decision::Limit(why) => self.stop_planning(why),
            Decision::Wrong(why) => self.finish(Status::Failed, Some((None, Failure::new(FailureKind::Error, why)))),
        }
    }

    /// Planning came to a limit: the switch, the time, or its own memory.
    fn stop_planning(&mut self, why: String) {
        let ended = self.ended_from_outside();
        let (status, failure) = ended.unwrap_or((Status::Terminated, Failure::new(FailureKind::Limit, why)));
        self.finish(status, Some((None, failure)));
    }

    /// The switch, and the limits, looked at before every action.
    fn ended_from_outside(&self) -> Option<(Status, Failure)> {
        if self.core.kill.is_killed() {
            return Some((Status::Killed, Failure::new(FailureKind::Killed, "the process was killed")));
        }
        self.core.ledger.check(Next::Action).err().map(|failure| (Status::Terminated, failure))
    }

    /// Performs the operators side by side and records them in the order of the plan.
    async fn act(&mut self, seen: Seen, operators: Vec<usize>, plan: Option<Plan>) {
        let scope = seen.scope;
        let plans_before = self.plans.len();
        if let Some(plan) = plan {
            self.follow(seen.facts.state, plan, &operators);
        }
        let actions: Vec<usize> =
            operators.iter().filter_map(|operator| self.core.agent.operators.get(*operator).copied()).collect();
        for action in actions {
            self.start_action(action, &scope, None);
        }
        let plan = (self.plans.len() > plans_before).then(|| self.plans.last().cloned()).flatten();
        self.put_started(plan);
        Box::pin(self.perform_in_flight(scope)).await;
    }

    /// Counts the start of an action; it is in flight from then on.
    pub(super) fn start_action(&mut self, action: usize, scope: &Scope, bound: Option<Vec<Bound>>) {
        tell_start(&self.core, scope, action, bound.as_deref());
        self.core.ledger.charge_action();
        self.starts[action] += 1;
        let started_at = self.core.host.world().now();
        self.in_flight.push(Flight { action, bound, start: self.starts[action], started_at, again: false });
    }

    /// Performs what is in flight side by side. It is recorded in its order once all of it has ended; when a person has
    /// to answer first, the process waits and all of it is performed again later, which repeats no step.
    pub(super) async fn perform_in_flight(&mut self, scope: Scope) {
        let core = &self.core;
        let performed = match self.in_flight.as_slice() {
            [only] => vec![perform(core.clone(), scope, only.clone()).await],
            all => join_all(all.iter().map(|one| perform(core.clone(), scope.clone(), one.clone()))).await,
        };
        // Killed or out of time while another part waits: that is the end, not a wait.
        let is_over = |one: &Performed| matches!(&one.result, Err(failure) if is_final(failure));
        let waits = performed.iter().any(Performed::waits) && !performed.iter().any(is_over);
        if waits {
            return self.wait();
        }
        self.in_flight.clear();
        self.core.steps.clear();
        for one in performed.into_iter().filter(|one| !one.waits()) {
            self.put_performed(&one);
            self.record(one);
        }
    }

    /// Takes a plan into force: told and counted when it differs from the rest of the one before, and what its first
    /// steps are to bring is remembered.
    fn follow(&mut self, state: State, plan: Plan, now: &[usize]) {
        let steps = plan.actions();
        if self.plans.is_empty() || steps != self.rest {
            let replanned = !self.plans.is_empty() && !self.begins_message();
            if replanned {
                self.core.ledger.charge_replan();
            }
            let names = self.action_names(&steps);
            self.core.emit(|| What::Planned {
                goal: self.goals.get(plan.goal).map(|goal| goal.name.clone()).unwrap_or_default(),
                steps: names.clone(),
                cost: plan.cost,
                replanned,
            });
            self.plans.push(names);
        }
        self.expected = brought_by(&plan, now);
        self.rest = steps;
        for operator in now {
            if let Some(at) = self.rest.iter().position(|step| step == operator) {
                self.rest.remove(at);
            }
        }
        self.in_force = (now.len() == 1).then_some((state, plan));
    }

    pub(super) fn action_names(&self, operators: &[usize]) -> Vec<String> {
        let agent = &self.core.agent;
        let names = operators.iter().filter_map(|operator| agent.actions.get(*agent.operators.get(*operator)?));
        names.map(|action| action.name.clone()).collect()
    }

    /// Asks a model about a condition and marks its answer.
    pub(super) async fn ask(&mut self, scope: Scope, condition: usize) {
        let named = self.core.agent.conditions.get(condition).map(|of| of.name.as_str()).unwrap_or_default();
        let number = self.asked.get(condition).map_or(1, |asked| asked + 1);
        let path = Path::new(format!("condition:{named}#{number}"));
        let answered = tokio::select! {
            biased;
            () = self.core.kill.killed() => Err(Failure::new(FailureKind::Killed, "the process was killed")),
            answered = ask::condition(&self.core, &scope, condition, &path) => answered,
        };
        let name = self.core.agent.conditions.get(condition).map(|of| of.name.clone());
        match answered {
            Ok(Some(answer)) => {
                self.put_asked(condition, &answer);
                self.mark_answer(condition, answer);
            }
            Ok(None) => self.give_up(format!("the condition `{}` cannot be asked", name.unwrap_or_default())),
            Err(failure) if failure.is_waiting() => self.wait(),
            Err(failure) => {
                let status = match failure.kind {
                    FailureKind::Killed => Status::Killed,
                    FailureKind::Limit => Status::Terminated,
                    _ => Status::Failed,
                };
                self.finish(status, Some((name, failure)));
            }
        }
    }

    /// A condition has an answer.
    pub(super) fn mark_answer(&mut self, condition: usize, answer: (Vec<Bound>, Truth)) {
        Arc::make_mut(&mut self.marks).answers[condition] = Some(answer);
        self.changes += 1;
        self.asked[condition] += 1;
        self.core.steps.clear();
    }

    /// The status from now on, for the journal too.
    pub(super) fn set_status(&mut self, status: Status) {
        self.status = status;
        let goal = self.goal.and_then(|goal| self.goals.get(goal)).map(|goal| goal.name.clone());
        *self.core.state.lock().unwrap_or_else(PoisonError::into_inner) = (status, goal);
    }

    /// What conditions, costs and values see now.
    pub fn scope(&self) -> Scope {
        let core = &self.core;
        Scope::new(
            core.host.clone(),
            core.agent.clone(),
            core.index.clone(),
            self.board.clone(),
            self.marks.clone(),
            core.view.clone(),
        )
        .after(self.history.clone())
        .in_state(self.state)
    }

    /// The planner of this run.
    pub fn planner(&self) -> PlannerKind {
        self.planner
    }

    /// The planning domain of this run.
    pub fn domain(&self) -> &Arc<planning::Compiled> {
        &self.domain
    }

    /// What the process shares with what it has under way.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Its status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether nothing more will happen.
    pub fn has_ended(&self) -> bool {
        !matches!(self.status, Status::NotStarted | Status::Running)
    }

    /// The result, once a goal holds.
    pub fn result(&self) -> Option<&Typed> {
        self.result.as_ref()
    }

    /// What went wrong, and in which action.
    pub fn failure(&self) -> Option<&(Option<String>, Failure)> {
        self.failure.as_ref()
    }

    /// The blackboard as it is.
    pub fn blackboard(&self) -> &Blackboard {
        &self.board
    }

    /// Everything about the process, as `run --json` shows it.
    pub fn document(&self) -> Document {
        let types = &self.core.agent.types;
        let used = self.core.ledger.used();
        let entry = |(_, object): (usize, &Arc<super::blackboard::Object>)| BoardEntry {
            r#type: types.name(object.type_id).to_owned(),
            name: object.name.as_deref().map(str::to_owned),
            value: (*object.value).clone(),
        };
        Document {
            process: self.core.id.clone(),
            agent: self.core.agent.name.clone(),
            status: self.status,
            goal: self.goal.and_then(|goal| self.goals.get(goal)).map(|goal| goal.name.clone()),
            output: self.result.clone(),
            history: self.history.iter().cloned().chain(self.waiting_entries()).collect(),
            plans: self.plans.clone(),
            blackboard: self.board.visible().map(entry).collect(),
            usage: UsageTotals {
                llm_calls: used.llm_calls,
                tool_calls: used.tool_calls,
                input_tokens: used.input_tokens,
                output_tokens: used.output_tokens,
                cost_usd: used.cost_usd,
            },
            waiting: self.pending.as_ref().map(|pending| Waiting {
                form: pending.question.form.clone(),
                prompt: pending.question.prompt.clone(),
                action: pending.question.action.clone(),
            }),
            failure: self.failure.as_ref().filter(|_| self.status != Status::Killed).map(|(action, failure)| {
                FailureNote {
                    action: action.clone(),
                    kind: failure.kind.word().to_owned(),
                    message: failure.message.clone(),
                }
            }),
        }
    }
}

/// The facts that later steps, or the goal, take from the steps that run now.
fn brought_by(plan: &Plan, now: &[usize]) -> Vec<(usize, FactId, bool)> {
    let later = plan.steps.iter().flat_map(|step| &step.relies_on).chain(&plan.goal_relies_on);
    let brought = later.filter_map(|support| match support.supplier {
        Supplier::Step(at) => {
            let operator = plan.steps.get(at)?.action;
            now.contains(&operator).then_some((operator, support.fact, support.value))
        }
        Supplier::Start => None,
    });
    brought.collect()
}
