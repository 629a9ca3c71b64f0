//! Supervised processes (runtime.md 2): a model sees the actions as tools, and calls them until a goal holds.
//!
//! Each round is one of three: a model's turn, a wave of the calls that it made, or the question about a condition that a
//! call hangs on. Calls that can run do so, up to the agent's `concurrency` side by side; those that need what others of
//! the same turn give follow them. Everything that is said is journalled, and a process that is rebuilt goes on where it
//! was.

use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::action::context::PromptCall;
use crate::action::{Failure, FailureKind};
use crate::diag::suggest;
use crate::llm::{Message, Part, ToolSpec};
use crate::planning::{self, Outcome, Problem};
use crate::program::guardrail::GuardrailCheck as Check;
use crate::program::{Fact, Input};
use crate::tool::{SPOOL_OVER, envelope};
use crate::value::{TypeId, schema_of_type};

use super::blackboard::Bound;
use super::context::CallLog;
use super::decide::{Decision, Seen};
use super::document::{Ending, Status};
use super::guard::{Guard, Place, Turn};
use super::journal::{ObjectRecord, Record};
use super::llm_call::{self, At, drop_thoughts};
use super::run::{Given, Process};
use super::steps::Path;
use super::supervisor_tools::{Choice, Verdict};

/// What the calls of a supervisor are named.
pub const NAME: &str = "supervisor";

/// The line of a tool that asks for nothing.
pub const READY: &str = "Ready: nothing is left to ask.";

/// How the line of a tool begins that leads to a goal.
pub const LEADS: &str = "Leads to the goal";

/// How much of a large object the supervisor reads, in characters; the whole is on the blackboard.
const HEAD_CHARS: usize = 2000;

/// How much of a reply an explanation repeats, in characters.
const SAID_CHARS: usize = 200;

/// A supervisor's conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Supervision {
    messages: Vec<Message>,
    stand: Stand,
}

/// Where a supervisor stands, beside what was said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stand {
    /// Turns of the model so far.
    pub turns: u32,
    /// Its last reply called nothing, and it was told that this changes nothing.
    #[serde(skip_serializing_if = "is_false", default)]
    pub nudged: bool,
    /// It was told that this is its last turn.
    #[serde(skip_serializing_if = "is_false", default)]
    pub warned: bool,
    /// Objects of the blackboard that it has been told of, by how many there ever were.
    pub told: usize,
    /// Types whose schema it has seen.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub schemas: Vec<String>,
    /// The calls of its last reply.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub calls: Vec<Call>,
}

/// One call of a supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The call's id, which its result repeats.
    pub id: String,
    /// The tool as it was named.
    pub tool: String,
    /// The arguments.
    pub arguments: Value,
    /// The action that was started for it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub action: Option<String>,
    /// What came of it: the text for the model, and whether it tells of an error.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer: Option<(String, bool)>,
}

/// A call that is carried out.
struct Start {
    /// Its position among the calls of its turn.
    call: usize,
    action: usize,
    bound: Vec<Bound>,
    given: Vec<(usize, Vec<Given>)>,
}

/// An action that a supervisor may call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Callable {
    /// The action.
    pub action: String,
    /// Whether it can be called without arguments.
    pub ready: bool,
    /// Inputs that a call has to give.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<String>,
    /// What else it needs and is not so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

/// An object that a supervisor gave as an argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GivenRecord {
    /// The object.
    #[serde(flatten)]
    pub object: ObjectRecord,
    /// Whether only the action that it was given to sees it.
    #[serde(skip_serializing_if = "is_false", default)]
    pub is_hidden: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Process {
    /// One round under a supervisor.
    pub(super) async fn supervise(&mut self, seen: &Seen) -> Decision {
        let domain = self.domain.clone();
        let problem = match self.problem(&domain, seen) {
            Ok(problem) => problem,
            Err(why) => return Decision::Wrong(why),
        };
        let choices = self.choices(seen, &problem);
        let is_open = |supervision: &Supervision| supervision.stand.calls.iter().any(|call| call.answer.is_none());
        match self.supervision.as_ref().is_some_and(is_open) {
            true => self.carry_out(seen, &problem, &choices).await,
            false => self.turn(seen, &problem, &choices).await,
        }
    }

    /// The model's turn.
    async fn turn(&mut self, seen: &Seen, problem: &Problem<'_>, choices: &[Choice]) -> Decision {
        let mut supervision = self.supervision.take().unwrap_or_default();
        let settings = self.core().agent.supervisor.clone();
        let mut said: Vec<Message> = Vec::new();
        let calls = std::mem::take(&mut supervision.stand.calls);
        if !calls.is_empty() {
            match self.passed_results(seen, &calls, supervision.stand.turns).await {
                Ok(results) => said.push(Message::tool_results(results)),
                Err(failure) => {
                    supervision.stand.calls = calls;
                    self.supervision = Some(supervision);
                    self.not_asked(failure);
                    return Decision::Nothing;
                }
            }
        }
        said.extend(self.news(&mut supervision).map(Message::user));
        // The last of its turns is announced once; after it there is none.
        if supervision.stand.turns > settings.max_turns {
            let turns = supervision.stand.turns;
            (supervision.stand.turns, supervision.stand.warned, supervision.stand.nudged) = (0, false, false);
            self.put_supervised(&said, Vec::new(), &supervision.stand);
            supervision.messages.append(&mut said);
            self.supervision = Some(supervision);
            let most = settings.max_turns;
            let why = format!("the supervisor has had its {most} turns (`max_turns`) and a last one, {turns} in all");
            return Decision::Stuck(self.why_not_reached(&why, problem));
        }
        if supervision.stand.turns == settings.max_turns && !supervision.stand.warned {
            supervision.stand.warned = true;
            said.push(Message::user(format!(
                "That was turn {most} of {most}, and no goal holds. This is the last one: call what is still missing now.",
                most = settings.max_turns
            )));
        }
        if !said.is_empty() {
            self.put_supervised(&said, Vec::new(), &supervision.stand);
            supervision.messages.append(&mut said);
        }
        let call = self.supervisor_call(supervision.messages.clone(), problem);
        let tools: Vec<ToolSpec> = choices.iter().map(|choice| choice.spec.clone()).collect();
        let turn = supervision.stand.turns + 1;
        let place = format!("{NAME}#{turn}");
        let path = Path::new(place.as_str());
        let log: Mutex<CallLog> = Mutex::default();
        let at = At { path: &path, log: &log };
        self.supervision = Some(supervision);
        let core = self.core().clone();
        let asked = async {
            let (mut reply, is_other) = llm_call::one_reply(&core, &seen.scope, &call, &tools, turn, at).await?;
            let guard = Guard::new(&core, &seen.scope, &call.settings.guardrails, NAME);
            for (index, part) in reply.parts.iter_mut().enumerate() {
                if let Part::ToolCall { name, arguments, .. } = part {
                    let step = format!("{place}/call{index}");
                    let place = Place { check: Check::ToolArguments, tool: name, step: &step, log: &log };
                    *arguments = guard.pass_value(std::mem::take(arguments), place, Turn::Both).await?;
                }
            }
            Ok((reply, is_other))
        };
        let asked = tokio::select! {
            biased;
            () = core.kill.killed() => Err(Failure::new(FailureKind::Killed, "the process was killed")),
            failure = core.ledger.out_of_time() => Err(failure),
            asked = asked => asked,
        };
        drop(core);
        let (reply, is_other) = match asked {
            Ok(replied) => replied,
            Err(failure) => {
                self.not_asked(failure);
                return Decision::Nothing;
            }
        };
        let Some(mut supervision) = self.supervision.take() else { return Decision::Nothing };
        let mut message = reply.to_message();
        if is_other {
            drop_thoughts(std::slice::from_mut(&mut message));
        }
        let mut said = if message.parts.is_empty() { Vec::new() } else { vec![message] };
        supervision.stand.turns += 1;
        let call = |(id, tool, arguments): (&str, &str, &Value)| Call {
            id: id.to_owned(),
            tool: tool.to_owned(),
            arguments: arguments.clone(),
            action: None,
            answer: None,
        };
        supervision.stand.calls = reply.tool_calls().map(call).collect();
        let is_silent = supervision.stand.calls.is_empty();
        let was_nudged = std::mem::replace(&mut supervision.stand.nudged, is_silent);
        if is_silent && !was_nudged {
            said.push(Message::user(self.nudge(choices)));
        }
        if is_silent && was_nudged {
            (supervision.stand.turns, supervision.stand.warned, supervision.stand.nudged) = (0, false, false);
        }
        self.core().steps.clear();
        self.put_supervised(&said, Vec::new(), &supervision.stand);
        supervision.messages.append(&mut said);
        self.supervision = Some(supervision);
        if is_silent && was_nudged {
            let said: String = reply.text().chars().take(SAID_CHARS).collect();
            let why = format!("the supervisor has called no action in two replies, the last of which is {said:?}");
            return Decision::Stuck(self.why_not_reached(&why, problem));
        }
        Decision::Nothing
    }

    /// The process waits for a person's word on what the supervisor is told or says, or has ended.
    fn not_asked(&mut self, failure: Failure) {
        if failure.is_waiting() {
            return self.wait();
        }
        let status = match failure.kind {
            FailureKind::Killed => Status::Killed,
            FailureKind::Limit => Status::Terminated,
            _ => Status::Failed,
        };
        self.finish(status, Some((Some(NAME.to_owned()), failure)));
    }

    /// The results of calls as guardrails let them pass: what an action gave is the result of a tool for the model.
    async fn passed_results(&self, seen: &Seen, calls: &[Call], turn: u32) -> Result<Vec<Part>, Failure> {
        let core = self.core().clone();
        let guard = Guard::new(&core, &seen.scope, &core.agent.supervisor.guardrails, NAME);
        let log: Mutex<CallLog> = Mutex::default();
        let mut results = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            let mut call = call.clone();
            if let (Some(_), Some((text, _))) = (&call.action, &mut call.answer) {
                let step = format!("{NAME}#{turn}/result{index}");
                let place = Place { check: Check::ToolResult, tool: &call.tool, step: &step, log: &log };
                // Inside of its envelope it is data; what a failure says is text.
                let inside = envelope::opened(text).and_then(|inside| serde_json::from_str::<Value>(inside).ok());
                match inside {
                    Some(value) => {
                        let passed = guard.pass_value(value.clone(), place, Turn::Both).await?;
                        if passed != value {
                            *text = envelope::seal(&passed.to_string(), &call.tool, false);
                        }
                    }
                    None => match guard.pass_value(Value::from(text.as_str()), place, Turn::Both).await? {
                        Value::String(passed) => *text = passed,
                        passed => *text = passed.to_string(),
                    },
                }
            }
            results.push(result_of(call));
        }
        Ok(results)
    }

    /// Starts the calls that can run now, or answers those that cannot.
    async fn carry_out(&mut self, seen: &Seen, problem: &Problem<'_>, choices: &[Choice]) -> Decision {
        let Some(mut supervision) = self.supervision.take() else { return Decision::Nothing };
        let agent = self.core().agent.clone();
        let at_once = agent.concurrency.max(1) as usize;
        let mut wave: Vec<Start> = Vec::new();
        let (mut to_ask, mut refused) = (None, Vec::new());
        for (at, call) in supervision.stand.calls.iter().enumerate().filter(|(_, call)| call.answer.is_none()) {
            if wave.len() >= at_once {
                break;
            }
            match self.verdict(call, seen, problem, choices) {
                Verdict::Run { action, bound, given } => {
                    let stands_alone =
                        !self.stands_beside(action) || wave.iter().any(|one| !self.stands_beside(one.action));
                    // One that runs once is asked again after it has run.
                    let is_there = !agent.actions[action].can_rerun && wave.iter().any(|one| one.action == action);
                    if wave.is_empty() || !(stands_alone || is_there) {
                        wave.push(Start { call: at, action, bound, given });
                    }
                }
                Verdict::Ask(condition, scope) => to_ask = to_ask.or(Some((condition, scope))),
                Verdict::No(why) => refused.push((at, why)),
            }
        }
        if wave.is_empty() {
            if let Some((condition, scope)) = to_ask {
                self.supervision = Some(supervision);
                self.ask(*scope, condition).await;
                return Decision::Nothing;
            }
            for (at, why) in refused {
                supervision.stand.calls[at].answer = Some((why, true));
            }
            self.put_supervised(&[], Vec::new(), &supervision.stand);
            self.supervision = Some(supervision);
            return Decision::Nothing;
        }
        let mut records = Vec::new();
        let mut starts = Vec::new();
        for Start { call: at, action, mut bound, given } in wave {
            supervision.stand.calls[at].action = Some(agent.actions[action].name.clone());
            for (input, objects) in given {
                let mut places = Vec::new();
                for one in objects {
                    let is_hidden = self.would_be_a_result(one.type_id);
                    records.push(GivenRecord { object: self.object_record(&one), is_hidden });
                    places.push(self.place_argument(one, is_hidden));
                }
                bound[input] = match (agent.actions[action].inputs[input].list, places.as_slice()) {
                    (false, [one]) => Bound::One(*one),
                    _ => Bound::All(places),
                };
            }
            starts.push((action, bound));
        }
        // It knows what it gave.
        supervision.stand.told = self.board.len();
        self.put_supervised(&[], records, &supervision.stand);
        self.supervision = Some(supervision);
        let scope = self.scope();
        for (action, bound) in starts {
            self.start_action(action, &scope, Some(bound));
        }
        self.put_started(None);
        Box::pin(self.perform_in_flight(scope)).await;
        Decision::Nothing
    }

    /// Takes down what was said, and where the supervisor stands.
    fn put_supervised(&self, said: &[Message], given: Vec<GivenRecord>, stand: &Stand) {
        self.core().put(|| Record::Supervised { said: said.to_vec(), given, stand: Box::new(stand.clone()) });
    }

    /// What was said, when the process is rebuilt.
    pub(super) fn supervised(&mut self, said: Vec<Message>, given: Vec<(Given, bool)>, stand: Stand) {
        self.core().steps.clear();
        let supervision = self.supervision.get_or_insert_default();
        supervision.messages.extend(said);
        supervision.stand = stand;
        for (one, is_hidden) in given {
            self.place_argument(one, is_hidden);
        }
    }

    /// Puts an argument on the blackboard.
    fn place_argument(&mut self, given: Given, is_hidden: bool) -> usize {
        let at = self.add(given.type_id, given.name, given.value);
        if is_hidden {
            self.hide(at);
        }
        at
    }

    /// Whether an argument of this type would by itself be what the process is to bring about: then only the action that
    /// it is given to sees it.
    fn would_be_a_result(&self, of: TypeId) -> bool {
        let types = &self.core().agent.types;
        let goals = self.considered_goals().filter_map(|goal| self.goals.get(goal));
        let mut wanted = goals.flat_map(|goal| goal.output.types());
        types.is_state(of) || wanted.any(|wanted| types.is_subtype(of, *wanted))
    }

    /// Whether an action takes nothing away from those beside it.
    fn stands_beside(&self, action: usize) -> bool {
        let (action, types) = (&self.core().agent.actions[action], &self.core().agent.types);
        let enters = action.output.types().iter().any(|of| types.is_state(*of));
        !enters && !action.clear_blackboard && action.hide.is_empty() && action.trigger.is_none()
    }

    /// What a supervisor may call now, and what each action waits for.
    pub fn callable(&self, seen: &Seen, problem: &Problem<'_>) -> Vec<Callable> {
        let agent = &self.core().agent;
        // A plan may assume what is not on the blackboard yet.
        let is_there = |input: &&Input| {
            let has = |fact: &Fact| *fact == Fact::Has { type_id: input.type_id, count: 1 };
            let at = agent.facts.iter().position(has);
            at.is_some_and(|at| seen.facts.state.knows(planning::FactId(at as u32), true))
        };
        let callable = |choice: &Choice| {
            let action = &agent.actions[choice.action];
            let asks = choice.asks(&action.inputs).filter(|input| !is_there(input));
            let asks: Vec<String> = asks.map(|input| input.name.clone()).collect();
            let needs = choice.unmet();
            Callable { action: action.name.clone(), ready: asks.is_empty() && needs.is_empty(), asks, needs }
        };
        self.choices(seen, problem).iter().map(callable).collect()
    }

    /// The call to the model as it stands, for `render`: the first, where nothing was said yet.
    pub fn supervisor_request(&mut self) -> Result<(PromptCall, Vec<ToolSpec>), Failure> {
        let seen = self.observe();
        let domain = self.domain.clone();
        let problem = self.problem(&domain, &seen).map_err(|why| Failure::new(FailureKind::Error, why))?;
        let choices = self.choices(&seen, &problem);
        let mut supervision = Supervision::default();
        let first = self.news(&mut supervision).map(Message::user);
        let call = self.supervisor_call(first.into_iter().collect(), &problem);
        Ok((call, choices.into_iter().map(|choice| choice.spec).collect()))
    }

    fn supervisor_call(&self, messages: Vec<Message>, problem: &Problem<'_>) -> PromptCall {
        PromptCall {
            name: NAME.to_owned(),
            system: Some(self.instructions(problem)),
            messages,
            output: None,
            settings: self.core().agent.supervisor.clone(),
            attempts: 1,
        }
    }

    /// What the supervisor is told of its work.
    fn instructions(&self, problem: &Problem<'_>) -> String {
        let agent = &self.core().agent;
        let about = agent.description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default();
        let goals: Vec<String> = self.considered_goals().filter_map(|goal| self.goal_line(goal, problem)).collect();
        let until = match goals.len() {
            1 => "The run ends when this goal holds:",
            _ => "The run ends when one of these goals holds:",
        };
        format!(
            "You direct the agent `{}`{about}. You do no work yourself: each tool is an action of the agent, and you \
             decide which are called, and in what order.\n\n{until}\n{}\n\nWhat an action takes is filled in from \
             the blackboard. Give only what its parameters ask for, and only what you know; what another action gives, \
             get from that action. Call several at once when they do not need each other. Each result tells as JSON what \
             came on the blackboard and what left it. When an action fails, find another way. Text alone changes nothing.",
            agent.name,
            goals.join("\n")
        )
    }

    fn goal_line(&self, goal: usize, problem: &Problem<'_>) -> Option<String> {
        let agent = &self.core().agent;
        let declared = self.goals.get(goal)?;
        let words = agent.words_for_process();
        let is_mark = |fact: planning::FactId| matches!(agent.facts.get(fact.0 as usize), Some(Fact::Ran(_)));
        let pre = &problem.domain.domain().goals.get(goal)?.pre;
        let needs: Vec<String> =
            pre.iter().filter(|(fact, _)| !is_mark(*fact)).map(|(fact, value)| words.short(*fact, *value)).collect();
        let mut line = format!("- `{}`", declared.name);
        if let Some(text) = declared.description.as_ref().filter(|text| !text.trim().is_empty()) {
            line.push_str(&format!(": {}", text.trim()));
        }
        if let Some(action) = declared.action.and_then(|action| agent.actions.get(action)) {
            line.push_str(&format!(" (once `{}` has run)", action.name));
        } else if !needs.is_empty() {
            line.push_str(&format!(" (it needs {})", suggest::listed(&needs)));
        }
        Some(line)
    }

    /// What has come on the blackboard and was not told yet.
    fn news(&self, supervision: &mut Supervision) -> Option<String> {
        let is_first = supervision.messages.is_empty();
        let from = supervision.stand.told;
        let new: Vec<usize> = self.board.visible().map(|(at, _)| at).filter(|at| *at >= from).collect();
        supervision.stand.told = self.board.len();
        let lines: Vec<String> = new
            .into_iter()
            .filter_map(|at| self.artifact(at, &mut supervision.stand.schemas))
            .map(|one| one.to_string())
            .collect();
        match (is_first, lines.is_empty()) {
            (true, true) => Some("The blackboard is empty.".to_owned()),
            (true, false) => Some(format!("On the blackboard:\n{}", lines.join("\n"))),
            (false, true) => None,
            (false, false) => {
                Some(format!("New on the blackboard:\n{}", envelope::seal(&lines.join("\n"), "blackboard", false)))
            }
        }
    }

    /// An object as the supervisor reads it; the schema of its type comes with the first of that type.
    fn artifact(&self, at: usize, schemas: &mut Vec<String>) -> Option<Value> {
        let object = self.board.get(at)?;
        let types = &self.core().agent.types;
        let of = types.name(object.type_id);
        let mut shown = Map::from_iter([("type".to_owned(), Value::from(of))]);
        if let Some(name) = &object.name {
            shown.insert("name".to_owned(), Value::from(&**name));
        }
        if !schemas.iter().any(|known| known == of) {
            schemas.push(of.to_owned());
            shown.insert("schema".to_owned(), schema_of_type(types, object.type_id));
        }
        let text = object.value.to_string();
        if u64::try_from(text.len()).is_ok_and(|bytes| bytes > SPOOL_OVER) {
            shown.insert("bytes".to_owned(), Value::from(text.len()));
            shown.insert("beginning".to_owned(), Value::from(text.chars().take(HEAD_CHARS).collect::<String>()));
        } else {
            shown.insert("value".to_owned(), (*object.value).clone());
        }
        Some(Value::Object(shown))
    }

    /// What the blackboard shows before an action is recorded that a supervisor has called.
    pub(super) fn before_answer(&self, action: usize) -> Option<Vec<usize>> {
        let name = &self.core().agent.actions.get(action)?.name;
        let supervision = self.supervision.as_ref()?;
        let is_open = |call: &Call| call.answer.is_none() && call.action.as_ref() == Some(name);
        supervision.stand.calls.iter().any(is_open).then(|| self.board.visible().map(|(at, _)| at).collect())
    }

    /// Answers the call that an action was started for.
    pub(super) fn answer_call(&mut self, action: usize, before: &[usize], ending: Ending, message: Option<&str>) {
        let Some(mut supervision) = self.supervision.take() else { return };
        let agent = self.core().agent.clone();
        let name = &agent.actions[action].name;
        let stand = &mut supervision.stand;
        let known = before.last().map_or(0, |last| last + 1);
        // A chat's conversation holds what was said, and every message makes it anew.
        let conversation = agent.types.id("Conversation");
        let is_other = |at: &usize| self.board.get(*at).is_some_and(|object| Some(object.type_id) != conversation);
        let now: Vec<usize> = self.board.visible().map(|(at, _)| at).filter(|at| is_other(at)).collect();
        let added: Vec<Value> =
            now.iter().filter(|at| **at >= known).filter_map(|at| self.artifact(*at, &mut stand.schemas)).collect();
        stand.told = stand.told.max(self.board.len());
        let types = &agent.types;
        let gone = before.iter().filter(|at| !self.board.is_visible(**at) && is_other(at));
        let gone: Vec<&str> =
            gone.filter_map(|at| self.board.get(*at)).map(|object| types.name(object.type_id)).collect();
        let answer = if ending == Ending::Failed {
            let why = envelope::seal(message.unwrap_or_default(), name, false);
            (format!("`{name}` failed, and is not tried again in this run; find another way:\n{why}"), true)
        } else {
            let mut answer = Map::from_iter([("added".to_owned(), Value::from(added))]);
            if !gone.is_empty() {
                answer.insert("removed".to_owned(), json!(gone));
            }
            match ending {
                Ending::Empty => answer.insert("note".to_owned(), Value::from("nothing came")),
                Ending::Recovered => answer.insert(
                    "note".to_owned(),
                    json!(format!("it failed, and this stands for its output: {}", message.unwrap_or_default())),
                ),
                _ => None,
            };
            (envelope::seal(&Value::Object(answer).to_string(), name, false), false)
        };
        let is_open = |call: &&mut Call| call.answer.is_none() && call.action.as_ref() == Some(name);
        if let Some(call) = stand.calls.iter_mut().find(is_open) {
            call.answer = Some(answer);
        }
        self.supervision = Some(supervision);
    }

    /// What a supervisor is told that has called nothing.
    fn nudge(&self, choices: &[Choice]) -> String {
        let agent = &self.core().agent;
        let ready = choices.iter().filter(|choice| choice.is_ready(&agent.actions[choice.action].inputs));
        let ready: Vec<&str> = ready.map(|choice| choice.spec.name.as_str()).collect();
        let ready = match ready.is_empty() {
            true => "No action is ready; give what one of them asks for.".to_owned(),
            false => format!("Ready now: {}.", suggest::listed(&ready)),
        };
        format!("No goal holds yet, and text alone changes nothing. Call an action. {ready}")
    }

    /// Why a supervised process ends without a goal.
    fn why_not_reached(&self, why: &str, problem: &Problem<'_>) -> String {
        let failed = self.first_failure.as_ref();
        let failed = failed.map(|(action, failure)| format!("; `{action}` failed: {}", failure.message));
        let way = match planning::plan(problem) {
            Outcome::Plan(plan) => {
                let names: Vec<&str> = plan
                    .actions()
                    .into_iter()
                    .filter_map(|operator| self.core().agent.operators.get(operator))
                    .filter_map(|action| self.core().agent.actions.get(*action))
                    .map(|action| action.name.as_str())
                    .collect();
                let goal = self.goals.get(plan.goal).map_or("", |goal| goal.name.as_str());
                format!("{} would reach `{goal}`", suggest::listed(&names))
            }
            _ => self.why_unreachable(problem),
        };
        format!("{why}, and no goal holds{}; {way}", failed.unwrap_or_default())
    }
}

/// The result of a call, as the model reads it.
fn result_of(call: Call) -> Part {
    let (content, is_error) = call.answer.unwrap_or_default();
    Part::ToolResult { id: call.id, name: call.tool, content, pictures: Vec::new(), is_error }
}
