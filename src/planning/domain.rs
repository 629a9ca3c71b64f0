//! What can be planned with: facts, actions and goals, and their checked, shared form.

use std::sync::Arc;

use indexmap::IndexSet;

use super::amount::Amounts;
use super::problem::CostError;

/// A fact of one domain, by its position in [`Domain::facts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FactId(pub u32);

/// What an action does to one fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The fact has this value afterwards.
    Makes(bool),
    /// A may-effect: the fact is open afterwards, it may turn out either way.
    Opens,
}

/// An operator of the domain.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Name, unique in the domain.
    pub name: String,
    /// Facts that must have a value; their number is what "more specific" counts.
    pub pre: Vec<(FactId, bool)>,
    /// What it does to facts; the last word on a fact counts.
    pub effects: Vec<(FactId, Effect)>,
    /// Cost, finite and not negative.
    pub cost: f64,
    /// Value, finite; counts in ranking goals and in utility planning, never in finding a plan.
    pub value: f64,
    /// Whether it is applicable only when it makes, or may make, some fact true that is not true now.
    pub needs_progress: bool,
    /// Facts that do not count as progress, such as its own `ran(…)`.
    pub progress_exempt: Vec<FactId>,
}

impl Action {
    /// Returns an action without preconditions, effects, cost or value.
    pub fn new(name: impl Into<String>) -> Self {
        Action {
            name: name.into(),
            pre: Vec::new(),
            effects: Vec::new(),
            cost: 0.0,
            value: 0.0,
            needs_progress: false,
            progress_exempt: Vec::new(),
        }
    }
}

/// What a process is to bring about.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Name, unique in the domain.
    pub name: String,
    /// Facts that must have a value.
    pub pre: Vec<(FactId, bool)>,
    /// Value, finite.
    pub value: f64,
}

/// Facts, actions and goals, in declaration order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Domain {
    /// Texts of the facts; a [`FactId`] is a position here.
    facts: IndexSet<String>,
    /// Actions in declaration order.
    pub actions: Vec<Action>,
    /// Goals in declaration order.
    pub goals: Vec<Goal>,
}

impl Domain {
    /// Returns an empty domain.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the fact of this text, added when it is new.
    pub fn fact(&mut self, text: &str) -> FactId {
        if let Some(index) = self.facts.get_index_of(text) {
            return FactId(index as u32);
        }
        FactId(self.facts.insert_full(text.to_owned()).0 as u32)
    }

    /// Returns the fact of this text, if the domain has it.
    pub fn fact_id(&self, text: &str) -> Option<FactId> {
        self.facts.get_index_of(text).map(|index| FactId(index as u32))
    }

    /// Returns the text of a fact, or `?` for one of another domain.
    pub fn fact_name(&self, fact: FactId) -> &str {
        self.facts.get_index(fact.0 as usize).map_or("?", String::as_str)
    }

    /// Returns the texts of all facts, in the order of their ids.
    pub fn facts(&self) -> impl ExactSizeIterator<Item = &str> {
        self.facts.iter().map(String::as_str)
    }

    /// Returns the number of facts.
    pub fn fact_count(&self) -> usize {
        self.facts.len()
    }

    /// Returns the position of the action of this name.
    pub fn action_index(&self, name: &str) -> Option<usize> {
        self.actions.iter().position(|action| action.name == name)
    }

    /// Returns the position of the goal of this name.
    pub fn goal_index(&self, name: &str) -> Option<usize> {
        self.goals.iter().position(|goal| goal.name == name)
    }

    /// Checks the domain and prepares what every search on it shares.
    ///
    /// # Errors
    /// A [`DomainError`] for a duplicate name, a fact of another domain, a requirement of both values of one fact, or a cost
    /// or value that is no number to plan with.
    pub fn compile(self) -> Result<Compiled, DomainError> {
        self.check()?;
        Ok(Compiled::build(self))
    }

    fn check(&self) -> Result<(), DomainError> {
        let mut names = IndexSet::new();
        for action in &self.actions {
            if !names.insert(action.name.as_str()) {
                return Err(DomainError::DuplicateName { kind: "action", name: action.name.clone() });
            }
            CostError::check_cost(&action.name, action.cost)?;
            CostError::check_value(&action.name, action.value)?;
            self.check_requirements(&action.name, &action.pre)?;
            let others = action.effects.iter().map(|(fact, _)| fact).chain(&action.progress_exempt);
            self.check_facts(&action.name, others)?;
        }
        names.clear();
        for goal in &self.goals {
            if !names.insert(goal.name.as_str()) {
                return Err(DomainError::DuplicateName { kind: "goal", name: goal.name.clone() });
            }
            CostError::check_value(&goal.name, goal.value)?;
            self.check_requirements(&goal.name, &goal.pre)?;
        }
        Ok(())
    }

    fn check_facts<'a>(&self, of: &str, facts: impl Iterator<Item = &'a FactId>) -> Result<(), DomainError> {
        for fact in facts {
            if fact.0 as usize >= self.facts.len() {
                return Err(DomainError::UnknownFact { of: of.to_owned(), fact: fact.0 });
            }
        }
        Ok(())
    }

    fn check_requirements(&self, of: &str, pre: &[(FactId, bool)]) -> Result<(), DomainError> {
        self.check_facts(of, pre.iter().map(|(fact, _)| fact))
    }
}

/// Why a domain cannot be planned with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DomainError {
    /// Two actions, or two goals, of one name.
    #[error("two {kind}s are named `{name}`; rename one of them")]
    DuplicateName {
        /// `action` or `goal`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A fact id that this domain did not give out.
    #[error("`{of}` mentions fact number {fact}, which this domain does not have")]
    UnknownFact {
        /// The action or goal.
        of: String,
        /// The id.
        fact: u32,
    },
    /// A cost or value that is no number to plan with.
    #[error(transparent)]
    Cost(#[from] CostError),
}

/// A checked domain with what every search on it shares; put it in an `Arc` and use it for all processes and replans.
#[derive(Clone, Debug)]
pub struct Compiled {
    domain: Domain,
    /// Preconditions and effects of each action, each fact once.
    pub(crate) operators: Vec<Operator>,
    /// For each literal, the actions that require it.
    pub(crate) required_by: Index,
    /// For each literal, the actions that bring it about or may do so.
    pub(crate) brought_by: Index,
    /// The declared costs as whole units.
    pub(crate) amounts: Arc<Amounts>,
}

/// An action reduced to what the search looks at.
#[derive(Clone, Debug)]
pub(crate) struct Operator {
    /// Preconditions, sorted, each once.
    pub(crate) pre: Vec<(FactId, bool)>,
    /// Effects, sorted by fact, one for each.
    pub(crate) effects: Vec<(FactId, Effect)>,
    /// Facts one of which must not be true yet; `None` when that is not asked.
    pub(crate) progress: Option<Vec<FactId>>,
    /// How many preconditions the author wrote: what "more specific" counts.
    pub(crate) specificity: u32,
    /// Whether it asks for both values of a fact, so that it never runs.
    pub(crate) impossible: bool,
}

impl Compiled {
    /// Returns the domain this was compiled from.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    fn build(domain: Domain) -> Self {
        let operators: Vec<Operator> = domain.actions.iter().map(operator).collect();
        let literals = 2 * domain.facts.len();
        let required_by = Index::new(literals, &operators, |operator, tell| {
            operator.pre.iter().for_each(|&(fact, value)| tell(literal(fact, value)));
        });
        let brought_by = Index::new(literals, &operators, |operator, tell| {
            for &(fact, effect) in &operator.effects {
                for value in [false, true] {
                    if effect == Effect::Opens || effect == Effect::Makes(value) {
                        tell(literal(fact, value));
                    }
                }
            }
        });
        let costs: Vec<f64> = domain.actions.iter().map(|action| action.cost).collect();
        Compiled { amounts: Arc::new(Amounts::of(&costs)), domain, operators, required_by, brought_by }
    }
}

/// Returns the number of a fact with a value: what an [`Index`] is over.
pub(crate) fn literal(fact: FactId, value: bool) -> usize {
    2 * fact.0 as usize + usize::from(value)
}

/// Lists of actions by literal, in one piece of memory.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    ends: Vec<u32>,
    actions: Vec<u32>,
}

impl Index {
    fn new(literals: usize, operators: &[Operator], visit: impl Fn(&Operator, &mut dyn FnMut(usize))) -> Self {
        let mut lists: Vec<Vec<u32>> = vec![Vec::new(); literals];
        for (action, operator) in operators.iter().enumerate() {
            visit(operator, &mut |literal| lists[literal].push(action as u32));
        }
        let (mut ends, mut actions) = (Vec::with_capacity(literals), Vec::new());
        for list in lists {
            actions.extend(list);
            ends.push(actions.len() as u32);
        }
        Index { ends, actions }
    }

    /// Returns the actions of a literal, in declaration order.
    pub(crate) fn of(&self, literal: usize) -> &[u32] {
        let Some(&end) = self.ends.get(literal) else { return &[] };
        let start = if literal == 0 { 0 } else { self.ends[literal - 1] };
        &self.actions[start as usize..end as usize]
    }
}

fn operator(action: &Action) -> Operator {
    let pre = normal_requirements(&action.pre);
    let mut effects: Vec<(FactId, Effect)> = Vec::with_capacity(action.effects.len());
    for &(fact, effect) in &action.effects {
        match effects.iter_mut().find(|(known, _)| *known == fact) {
            Some(slot) => slot.1 = effect,
            None => effects.push((fact, effect)),
        }
    }
    effects.sort_by_key(|(fact, _)| *fact);
    let progress = action.needs_progress.then(|| {
        let gains = effects.iter().filter(|(_, effect)| *effect != Effect::Makes(false)).map(|(fact, _)| *fact);
        gains.filter(|fact| !action.progress_exempt.contains(fact)).collect()
    });
    let specificity = pre.len() as u32;
    Operator { impossible: contradicts(&pre), pre, effects, progress, specificity }
}

/// Returns whether sorted requirements ask for both values of a fact, which nothing satisfies.
pub(crate) fn contradicts(pre: &[(FactId, bool)]) -> bool {
    pre.windows(2).any(|pair| pair[0].0 == pair[1].0)
}

/// Sorts requirements and drops repeated ones.
pub(crate) fn normal_requirements(pre: &[(FactId, bool)]) -> Vec<(FactId, bool)> {
    let mut pre = pre.to_vec();
    pre.sort_unstable();
    pre.dedup();
    pre
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_interned() {
        let mut domain = Domain::new();
        let a = domain.fact("a");
        assert_eq!(domain.fact("a"), a);
        assert_eq!(domain.fact_id("b"), None);
        assert_eq!(domain.fact_name(a), "a");
    }

    #[test]
    fn bad_domains_are_refused() {
        let mut domain = Domain::new();
        domain.actions = vec![Action::new("a"), Action::new("a")];
        assert!(matches!(domain.clone().compile(), Err(DomainError::DuplicateName { .. })));
        domain.actions = vec![Action { cost: -1.0, ..Action::new("a") }];
        assert!(matches!(domain.clone().compile(), Err(DomainError::Cost(_))));
        domain.actions = vec![Action { pre: vec![(FactId(7), true)], ..Action::new("a") }];
        assert!(matches!(domain.compile(), Err(DomainError::UnknownFact { .. })));
    }

    #[test]
    fn the_last_effect_on_a_fact_counts() {
        let mut domain = Domain::new();
        let fact = domain.fact("f");
        let effects = vec![(fact, Effect::Makes(false)), (fact, Effect::Makes(true))];
        domain.actions.push(Action { effects, ..Action::new("a") });
        let compiled = domain.compile().expect("a good domain");
        assert_eq!(compiled.operators[0].effects, [(fact, Effect::Makes(true))]);
    }
}
