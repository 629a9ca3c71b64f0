//! From a compiled agent to its planning domain (runtime.md 1). `planning` knows nothing of types, blackboards or
//! expressions: what they mean for planning is all said here.
//!
//! The rules, in short. `has(T)` is made by an output whose every concrete type is a `T`, and opened by one of which some
//! are. Several inputs of one type are counted facts, and an action whose objects may be counted has one operator for
//! each count that it can raise. A condition or expr is opened by what outputs, hides or clears a type it mentions.

use indexmap::IndexMap;

use crate::planning::{Action as Operator, Domain, Effect, FactId, Goal as DomainGoal};
use crate::program::{Action, Condition, ConditionKind, Fact, Goal, Input, Number};
use crate::prompt::ExprId;
use crate::value::{Output, OutputKind, TypeId, Types};

use super::states::{self, Entering};
use super::tools::ToolTypes;

/// Most operators that one action may stand for; beyond that higher counts are left open instead.
const VARIANTS_MAX: usize = 64;

/// Types whose objects stay on a cleared blackboard beside `keep`: the conversation.
const CONVERSATION: &[&str] = &["Conversation", "UserMessage", "AssistantMessage"];

/// What a `pre` or `when` asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Requirement {
    /// What is asked.
    pub(crate) test: Test,
    /// Which answer is wanted.
    pub(crate) holds: bool,
    /// Types that it mentions as variables, whose objects have to be there.
    pub(crate) needs: Vec<TypeId>,
}

/// A condition by name, or an expr.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    /// Index into the agent's conditions.
    Condition(usize),
    /// Index into [`Sketch::exprs`].
    Expr(usize),
}

/// An expr of a `pre` or `when`; two of equal resolved form are one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExprFact {
    /// The compiled expr.
    pub(crate) id: ExprId,
    /// As the author wrote it.
    pub(crate) text: String,
    /// Every variable resolved to its type and binding.
    pub(crate) form: String,
    /// Types that it mentions in any way.
    pub(crate) mentions: Vec<TypeId>,
    /// Conditions that it names, directly or through others.
    pub(crate) conditions: Vec<usize>,
    /// Actions that it asks for with `ran`.
    pub(crate) ran: Vec<String>,
    /// Inputs of its action that it uses under their own names.
    pub(crate) inputs: Vec<Input>,
    /// The state whose fields it uses.
    pub(crate) state: Option<TypeId>,
}

/// What lowering works on.
#[derive(Clone, Copy)]
pub(crate) struct Sketch<'a> {
    pub(crate) types: &'a Types,
    pub(crate) keep: &'a [TypeId],
    pub(crate) conditions: &'a [Condition],
    pub(crate) exprs: &'a [ExprFact],
    /// Actions with their requirements and the types that their tools require.
    pub(crate) actions: &'a [Action],
    pub(crate) pre: &'a [Vec<Requirement>],
    pub(crate) tool_types: &'a [ToolTypes],
    /// Goals with their requirements.
    pub(crate) goals: &'a [Goal],
    pub(crate) when: &'a [Vec<Requirement>],
}

/// A domain with the meaning of its facts and operators.
#[derive(Clone, Debug)]
pub(crate) struct Lowered {
    pub(crate) domain: Domain,
    /// By fact id.
    pub(crate) facts: Vec<Fact>,
    /// For each operator the action it stands for.
    pub(crate) operators: Vec<usize>,
}

/// Lowers an agent.
pub(crate) fn lower(sketch: Sketch<'_>) -> Lowered {
    let mut lowering = Lowering {
        sketch,
        domain: Domain::new(),
        facts: Vec::new(),
        counts: counts(&sketch),
        concrete: sketch.types.iter().map(|(id, _)| sketch.types.concrete(id)).collect(),
        roots: states::roots(sketch.types, sketch.actions),
    };
    lowering.declare_facts();
    let mut operators = Vec::new();
    for at in 0..sketch.actions.len() {
        for operator in lowering.action(at) {
            lowering.domain.actions.push(operator);
            operators.push(at);
        }
    }
    for at in 0..sketch.goals.len() {
        let goal = lowering.goal(at);
        lowering.domain.goals.push(goal);
    }
    Lowered { domain: lowering.domain, facts: lowering.facts, operators }
}

/// How many distinct objects of each type some action needs at most.
fn counts(sketch: &Sketch<'_>) -> IndexMap<TypeId, u32> {
    let mut counts: IndexMap<TypeId, u32> = IndexMap::new();
    for action in sketch.actions {
        for (type_id, count) in needed(sketch.types, &action.inputs) {
            let most = counts.entry(type_id).or_insert(1);
            *most = (*most).max(count);
        }
    }
    counts
}

/// The types that inputs require, each with how many objects there must be: every required single input takes one of
/// its own, and one of a subtype counts for the supertype too.
fn needed(types: &Types, inputs: &[Input]) -> Vec<(TypeId, u32)> {
    let required: Vec<&Input> = inputs.iter().filter(|input| !input.optional).collect();
    let mut needed: Vec<(TypeId, u32)> = Vec::new();
    for input in &required {
        if needed.iter().any(|(id, _)| *id == input.type_id) {
            continue;
        }
        let single = required.iter().filter(|other| !other.list && types.is_subtype(other.type_id, input.type_id));
        needed.push((input.type_id, (single.count() as u32).max(1)));
    }
    needed
}

/// How surely the objects of an output are of a type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comes {
    Surely,
    Perhaps,
    Never,
}

struct Lowering<'a> {
    sketch: Sketch<'a>,
    domain: Domain,
    facts: Vec<Fact>,
    counts: IndexMap<TypeId, u32>,
    /// Concrete types of each type.
    concrete: Vec<Vec<TypeId>>,
    /// The states that are no special case of another one, where some action leads to a state.
    roots: Vec<TypeId>,
}

impl Lowering<'_> {
    fn types(&self) -> &Types {
        self.sketch.types
    }

    fn fact(&mut self, fact: Fact) -> FactId {
        if let Some(known) = self.facts.iter().position(|known| *known == fact) {
            return FactId(known as u32);
        }
        let mut name = self.name(&fact);
        // Two exprs may be spelled alike and mean different things; their facts need names of their own.
        while self.domain.fact_id(&name).is_some() {
            name.push('\'');
        }
        let id = self.domain.fact(&name);
        self.facts.push(fact);
        id
    }

    fn name(&self, fact: &Fact) -> String {
        let of = |id: TypeId| self.types().name(id);
        match fact {
            Fact::Has { type_id, count: 1 } => format!("has({})", of(*type_id)),
            Fact::Has { type_id, count } => format!("has({}, {count})", of(*type_id)),
            Fact::HasNamed { name, type_id } => format!("has({name}: {})", of(*type_id)),
            Fact::Ran(action) => format!("ran({})", self.sketch.actions[*action].name),
            Fact::Newest(type_id) => format!("newest({})", of(*type_id)),
            Fact::In(type_id) => format!("in({})", of(*type_id)),
            Fact::Condition(at) => self.sketch.conditions[*at].name.clone(),
            Fact::Expr { id, inputs, state, .. } => {
                self.expr(*id, inputs, *state).map_or_else(String::new, |expr| expr.text.clone())
            }
        }
    }

    /// Makes every fact that something asks for before any effect is computed, so that each action affects all of them.
    fn declare_facts(&mut self) {
        for at in 0..self.sketch.actions.len() {
            self.pre_of(at);
            self.fact(Fact::Ran(at));
        }
        for at in 0..self.sketch.goals.len() {
            self.goal(at);
        }
        for action in self.sketch.actions {
            for (at, _) in &action.post {
                self.fact(Fact::Condition(*at));
            }
            for type_id in action.output.types().to_vec() {
                self.fact(Fact::Has { type_id, count: 1 });
                for sup in self.types().supertypes(type_id) {
                    self.fact(Fact::Has { type_id: sup, count: 1 });
                }
            }
        }
        for root in self.roots.clone() {
            self.fact(Fact::In(root));
        }
        for (type_id, most) in self.counts.clone() {
            for count in 1..=most {
                self.fact(Fact::Has { type_id, count });
            }
        }
    }

    /// The preconditions that hold for every operator of an action.
    fn pre_of(&mut self, at: usize) -> Vec<(FactId, bool)> {
        let action = &self.sketch.actions[at];
        let mut pre = Vec::new();
        for (type_id, most) in needed(self.types(), &action.inputs) {
            for count in 1..=most {
                pre.push((self.fact(Fact::Has { type_id, count }), true));
            }
        }
        for input in action.inputs.iter().filter(|input| input.named && !input.optional) {
            pre.push((self.fact(Fact::HasNamed { name: input.name.clone(), type_id: input.type_id }), true));
        }
        if let Some(type_id) = action.trigger {
            pre.push((self.fact(Fact::Newest(type_id)), true));
        }
        for requirement in &self.sketch.pre[at] {
            pre.push((self.test(&requirement.test), requirement.holds));
            for type_id in &requirement.needs {
                pre.push((self.fact(Fact::Has { type_id: *type_id, count: 1 }), true));
            }
        }
        for type_id in &self.sketch.tool_types[at].required {
            pre.push((self.fact(Fact::Has { type_id: *type_id, count: 1 }), true));
        }
        if !action.can_rerun && action.trigger.is_none() {
            pre.push((self.fact(Fact::Ran(at)), false));
        }
        match action.state {
            Some(state) => pre.push((self.fact(Fact::In(state)), true)),
            // A process that has entered a state stays in states.
            None if !action.on_stuck => {
                for root in self.roots.clone() {
                    pre.push((self.fact(Fact::In(root)), false));
                }
            }
            None => {}
        }
        pre.dedup();
        pre
    }

    fn test(&mut self, test: &Test) -> FactId {
        match test {
            Test::Condition(at) => self.fact(Fact::Condition(*at)),
            Test::Expr(at) => {
                let expr = &self.sketch.exprs[*at];
                let (inputs, mentions) = (expr.inputs.clone(), expr.mentions.clone());
                self.fact(Fact::Expr { id: expr.id, inputs, mentions, state: expr.state })
            }
        }
    }

    /// The operators of an action: one for each way in which counted facts can rise or fall.
    fn action(&mut self, at: usize) -> Vec<Operator> {
        let action = &self.sketch.actions[at];
        let (pre, ran) = (self.pre_of(at), self.fact(Fact::Ran(at)));
        let number = |number: &Number| match number {
            Number::Fixed(value) => *value,
            Number::Expr(_) => 0.0,
        };
        let rerun = action.can_rerun || action.trigger.is_some();
        let has_effect = !action.output.types().is_empty() || !action.post.is_empty();
        let effects = self.effects(at);
        let variants = self.variants(action);
        let many = variants.len() > 1;
        let achieves = self.sketch.goals.iter().any(|goal| goal.action == Some(at));
        let build = |(index, variant): (usize, Variant)| {
            let mut operator = Operator::new(if many && index > 0 {
                format!("{}#{}", action.name, index + 1)
            } else {
                action.name.clone()
            });
            operator.pre = [pre.clone(), variant.pre].concat();
            operator.effects = [effects.clone(), variant.effects].concat();
            operator.cost = number(&action.cost);
            operator.value = number(&action.value);
            // Entering a state is something new, also where the state is the same; and who is stuck tries everything.
            let is_new = action.on_stuck || states::entering(self.types(), &action.output) != Entering::Never;
            operator.needs_progress = !rerun && has_effect && action.hide.is_empty() && !is_new;
            // Having run is no progress in itself, unless a goal asks for just that (`achieves`).
            operator.progress_exempt = if achieves { Vec::new() } else { vec![ran] };
            operator
        };
        variants.into_iter().enumerate().map(build).collect()
    }

    /// The effects that all operators of an action share; the last word on a fact counts.
    fn effects(&mut self, at: usize) -> Vec<(FactId, Effect)> {
        let action = &self.sketch.actions[at];
        let mut effects: Vec<(FactId, Effect)> = Vec::new();
        for fact in 0..self.facts.len() {
            let effect = match &self.facts[fact] {
                Fact::Has { type_id, count } => self.has_effect(action, *type_id, *count).or_else(|| {
                    // What its tools publish may come, whatever it outputs.
                    self.publishes(at, *type_id).then_some(Effect::Opens)
                }),
                Fact::HasNamed { name, type_id } => self.named_effect(action, name, *type_id),
                Fact::Ran(ran) => self.ran_effect(at, *ran),
                Fact::Newest(type_id) => self.newest_effect(action, *type_id),
                Fact::In(state) => self.in_effect(action, *state),
                Fact::Condition(condition) => self.condition_effect(action, *condition).or_else(|| {
                    let condition = &self.sketch.conditions[*condition];
                    let is_flag = matches!(condition.kind, ConditionKind::Flag(_));
                    let publishes = condition.mentions.iter().any(|of| self.publishes(at, *of));
                    (!is_flag && publishes).then_some(Effect::Opens)
                }),
                Fact::Expr { id, inputs, state, .. } => self.expr_effect(action, *id, inputs, *state).or_else(|| {
                    let mentions = self.expr(*id, inputs, *state).map_or(&[][..], |expr| &expr.mentions);
                    mentions.iter().any(|of| self.publishes(at, *of)).then_some(Effect::Opens)
                }),
            };
            effects.extend(effect.map(|effect| (FactId(fact as u32), effect)));
        }
        effects
    }

    /// Whether a tool of an action may put an object of a type on the blackboard.
    fn publishes(&self, at: usize, type_id: TypeId) -> bool {
        let published = &self.sketch.tool_types[at].published;
        published.iter().any(|of| self.types().is_subtype(*of, type_id) || self.types().is_subtype(type_id, *of))
    }

    fn comes(&self, output: &Output, wanted: TypeId) -> Comes {
        let of = |id: TypeId| {
            let concrete = &self.concrete[id.0 as usize];
            let fits = concrete.iter().filter(|sub| self.types().is_subtype(**sub, wanted)).count();
            match fits {
                _ if self.types().is_subtype(id, wanted) => Comes::Surely,
                0 => Comes::Never,
                _ if fits == concrete.len() => Comes::Surely,
                _ => Comes::Perhaps,
            }
        };
        match &output.kind {
            OutputKind::None => Comes::Never,
            OutputKind::One(id) | OutputKind::List(id) => of(*id),
            OutputKind::Optional(id) => {
                if of(*id) == Comes::Never {
                    Comes::Never
                } else {
                    Comes::Perhaps
                }
            }
            OutputKind::SomeOf(ids) => {
                if ids.iter().all(|id| of(*id) == Comes::Never) {
                    Comes::Never
                } else {
                    Comes::Perhaps
                }
            }
        }
    }

    /// Whether everything else leaves the blackboard: the author says so, or a state is entered.
    fn clears(&self, action: &Action) -> bool {
        let entering = states::entering(self.types(), &action.output);
        action.clear_blackboard || matches!(entering, Entering::Surely | Entering::WhenItComes)
    }

    /// What becomes of `ran(other)`: entering a state makes the actions of states free to run again.
    fn ran_effect(&self, at: usize, other: usize) -> Option<Effect> {
        let action = &self.sketch.actions[at];
        let of_state = self.sketch.actions[other].state.is_some();
        let achieves = self.sketch.goals.iter().any(|goal| goal.action == Some(other));
        let entering = states::entering(self.types(), &action.output);
        match entering {
            _ if other == at && (!of_state || achieves) => Some(Effect::Makes(true)),
            Entering::Never => (other == at).then_some(Effect::Makes(true)),
            Entering::Surely => of_state.then_some(Effect::Makes(false)),
            Entering::WhenItComes | Entering::Perhaps => (other == at).then_some(Effect::Opens),
        }
    }

    /// What becomes of `in(state)`.
    fn in_effect(&self, action: &Action, state: TypeId) -> Option<Effect> {
        match (self.comes(&action.output, state), states::entering(self.types(), &action.output)) {
            (Comes::Surely, _) => Some(Effect::Makes(true)),
            (Comes::Perhaps, _) => Some(Effect::Opens),
            (Comes::Never, Entering::Never) => None,
            (Comes::Never, Entering::Surely) => Some(Effect::Makes(false)),
            // It may be left.
            (Comes::Never, Entering::WhenItComes | Entering::Perhaps) => {
                let own = action.state.is_some_and(|own| self.types().is_subtype(own, state));
                own.then_some(Effect::Opens)
            }
        }
    }

    fn has_effect(&self, action: &Action, type_id: TypeId, count: u32) -> Option<Effect> {
        match (self.comes(&action.output, type_id), count) {
            (Comes::Surely, 1) => return Some(Effect::Makes(true)),
            (Comes::Perhaps, 1) => return Some(Effect::Opens),
            // Of a list there may be any number; single objects are counted by the operators.
            (Comes::Surely | Comes::Perhaps, _) if self.is_many(&action.output) => return Some(Effect::Opens),
            (Comes::Perhaps, _) => return Some(Effect::Opens),
            (Comes::Surely | Comes::Never, _) => {}
        }
        if self.clears(action) && !self.is_kept(type_id) {
            return Some(Effect::Makes(false));
        }
        let hidden = action.hide.iter().filter_map(|at| action.inputs.get(*at));
        let hides = hidden.filter(|input| input.type_id == type_id).count();
        let most = self.counts.get(&type_id).copied().unwrap_or(1);
        (hides > 0 && most == 1).then_some(Effect::Makes(false))
    }

    fn is_many(&self, output: &Output) -> bool {
        matches!(output.kind, OutputKind::List(_))
    }

    /// Whether objects of a type may be left on a cleared blackboard.
    fn is_kept(&self, type_id: TypeId) -> bool {
        let conversation = CONVERSATION.iter().filter_map(|name| self.types().id(name));
        let mut kept = self.sketch.keep.iter().copied().chain(conversation);
        kept.any(|kept| self.types().is_subtype(kept, type_id) || self.types().is_subtype(type_id, kept))
    }

    fn named_effect(&self, action: &Action, name: &str, type_id: TypeId) -> Option<Effect> {
        if action.output.name.as_deref() == Some(name) {
            match self.comes(&action.output, type_id) {
                Comes::Surely => return Some(Effect::Makes(true)),
                Comes::Perhaps => return Some(Effect::Opens),
                Comes::Never => return Some(Effect::Makes(false)),
            }
        }
        let hidden = action.hide.iter().filter_map(|at| action.inputs.get(*at));
        let hides = hidden.filter(|input| input.named && input.name == name).count() > 0;
        let cleared = self.clears(action) && !self.is_kept(type_id);
        (hides || cleared).then_some(Effect::Makes(false))
    }

    fn newest_effect(&self, action: &Action, type_id: TypeId) -> Option<Effect> {
        match self.comes(&action.output, type_id) {
            Comes::Surely => Some(Effect::Makes(true)),
            Comes::Perhaps => Some(Effect::Opens),
            Comes::Never if matches!(action.output.kind, OutputKind::One(_) | OutputKind::List(_)) => {
                Some(Effect::Makes(false))
            }
            Comes::Never => (self.clears(action) && !self.is_kept(type_id)).then_some(Effect::Makes(false)),
        }
    }

    fn condition_effect(&self, action: &Action, condition: usize) -> Option<Effect> {
        if let Some((_, value)) = action.post.iter().rev().find(|(at, _)| *at == condition) {
            return Some(Effect::Makes(*value));
        }
        let condition = &self.sketch.conditions[condition];
        if matches!(condition.kind, ConditionKind::Flag(_)) {
            return None;
        }
        (posts(action, &condition.names) || self.touches(action, &condition.mentions)).then_some(Effect::Opens)
    }

    fn expr(&self, id: ExprId, inputs: &[Input], state: Option<TypeId>) -> Option<&ExprFact> {
        self.sketch.exprs.iter().find(|expr| expr.id == id && expr.inputs == inputs && expr.state == state)
    }

    fn expr_effect(&self, action: &Action, id: ExprId, inputs: &[Input], state: Option<TypeId>) -> Option<Effect> {
        let expr = self.expr(id, inputs, state)?;
        let asks_for_run = expr.ran.contains(&action.name);
        let opens = asks_for_run || posts(action, &expr.conditions) || self.touches(action, &expr.mentions);
        opens.then_some(Effect::Opens)
    }

    /// Whether an action outputs, hides or clears an object of one of these types.
    fn touches(&self, action: &Action, types: &[TypeId]) -> bool {
        let hidden: Vec<TypeId> =
            action.hide.iter().filter_map(|at| action.inputs.get(*at)).map(|input| input.type_id).collect();
        types.iter().any(|id| {
            self.comes(&action.output, *id) != Comes::Never
                || hidden.iter().any(|of| self.types().is_subtype(*of, *id) || self.types().is_subtype(*id, *of))
        })
    }

    /// The ways in which counted facts change: for each counted type that surely comes, the count that is reached.
    fn variants(&mut self, action: &Action) -> Vec<Variant> {
        let mut variants = vec![Variant::default()];
        for (type_id, most) in self.counts.clone() {
            if most < 2 || variants.len() * most as usize > VARIANTS_MAX {
                continue;
            }
            let hides = action.hide.iter().filter_map(|at| action.inputs.get(*at));
            let hides = hides.filter(|input| input.type_id == type_id).count() > 0;
            let single = matches!(action.output.kind, OutputKind::One(_));
            let comes = single && self.comes(&action.output, type_id) == Comes::Surely;
            let cleared = self.clears(action) && !self.is_kept(type_id);
            if comes == hides || cleared {
                // One comes and one goes, or nothing happens, or only the new one is left.
                continue;
            }
            let steps: Vec<Variant> = (1..=most).map(|count| self.step(type_id, count, most, comes)).collect();
            let product = variants.iter().flat_map(|before| steps.iter().map(move |step| before.and(step)));
            variants = product.collect();
        }
        variants
    }

    /// Raising a count to `count`, or lowering it from `count`.
    fn step(&mut self, type_id: TypeId, count: u32, most: u32, raises: bool) -> Variant {
        let has = |lowering: &mut Self, count: u32| lowering.fact(Fact::Has { type_id, count });
        if raises {
            let pre = (1..count).map(|count| (has(self, count), true)).collect();
            return Variant { pre, effects: vec![(has(self, count), Effect::Makes(true))] };
        }
        let mut pre = vec![(has(self, count), true)];
        if count < most {
            pre.push((has(self, count + 1), false));
        }
        Variant { pre, effects: vec![(has(self, count), Effect::Makes(false))] }
    }

    fn goal(&mut self, at: usize) -> DomainGoal {
        let goal = &self.sketch.goals[at];
        let mut pre = Vec::new();
        if let Some(action) = goal.action {
            pre.push((self.fact(Fact::Ran(action)), true));
        }
        if let [type_id] = goal.output.types() {
            pre.push((self.fact(Fact::Has { type_id: *type_id, count: 1 }), true));
        }
        for requirement in &self.sketch.when[at] {
            pre.push((self.test(&requirement.test), requirement.holds));
        }
        let value = match goal.value {
            Number::Fixed(value) => value,
            Number::Expr(_) => 0.0,
        };
        DomainGoal { name: goal.name.clone(), pre, value }
    }
}

/// What one operator of an action has beyond the others.
#[derive(Clone, Debug, Default)]
struct Variant {
    pre: Vec<(FactId, bool)>,
    effects: Vec<(FactId, Effect)>,
}

impl Variant {
    fn and(&self, other: &Variant) -> Variant {
        Variant {
            pre: [self.pre.clone(), other.pre.clone()].concat(),
            effects: [self.effects.clone(), other.effects.clone()].concat(),
        }
    }
}

/// Whether an action's `post` sets one of these conditions.
fn posts(action: &Action, conditions: &[usize]) -> bool {
    action.post.iter().any(|(at, _)| conditions.contains(at))
}
