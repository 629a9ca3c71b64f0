//! What every process of one agent looks up again and again, computed once.

use std::sync::OnceLock;

use indexmap::IndexMap;
use minijinja::Value;
use serde_json::{Map, Value as Json};

use crate::planning::FactId;
use crate::program::Agent;
use crate::prompt::{from_json, list_value, map_value};
use crate::value::{TypeId, snake_case};

/// Tables of one agent, shared by all its processes.
#[derive(Debug)]
pub struct AgentIndex {
    /// By type: the type itself and everything that its objects also are.
    kin: Vec<Box<[TypeId]>>,
    /// Types by their default name.
    by_default_name: IndexMap<String, TypeId>,
    /// Conditions by name.
    conditions: IndexMap<String, usize>,
    /// Actions by full name.
    actions: IndexMap<String, usize>,
    /// `config`, as templates see it.
    config: Value,
    /// Names that the order of actions, operators, facts, types and goals can be told from.
    shape: OnceLock<String>,
    /// Whether a cost or value of an action is an expr, so that a planning round has to compute it.
    pub(super) has_number_exprs: bool,
}

impl AgentIndex {
    /// The tables of an agent.
    pub fn new(agent: &Agent) -> AgentIndex {
        AgentIndex::with_config(agent, &agent.config)
    }

    /// The tables of an agent whose `config` the run has changed.
    pub fn with_config(agent: &Agent, config: &Map<String, Json>) -> AgentIndex {
        let types = &agent.types;
        let kin = types.iter().map(|(id, _)| std::iter::once(id).chain(types.supertypes(id)).collect()).collect();
        let is_expr = |number: &crate::program::Number| matches!(number, crate::program::Number::Expr(_));
        let config: Vec<(String, Value)> =
            config.iter().map(|(name, value)| (name.clone(), from_json(value))).collect();
        AgentIndex {
            kin,
            by_default_name: types.iter().map(|(id, def)| (snake_case(&def.name), id)).collect(),
            conditions: agent.conditions.iter().enumerate().map(|(at, of)| (of.name.clone(), at)).collect(),
            actions: agent.actions.iter().enumerate().map(|(at, action)| (action.name.clone(), at)).collect(),
            config: map_value(config),
            shape: OnceLock::new(),
            has_number_exprs: agent.actions.iter().any(|action| is_expr(&action.cost) || is_expr(&action.value))
                || agent.goals.iter().any(|goal| is_expr(&goal.value)),
        }
    }

    /// The type itself and everything that its objects also are.
    pub fn kin(&self, id: TypeId) -> &[TypeId] {
        self.kin.get(id.0 as usize).map_or(&[], |kin| kin)
    }

    /// How many types there are.
    pub fn type_count(&self) -> usize {
        self.kin.len()
    }

    pub(super) fn type_of_default_name(&self, name: &str) -> Option<TypeId> {
        self.by_default_name.get(name).copied()
    }

    pub(super) fn condition(&self, name: &str) -> Option<usize> {
        self.conditions.get(name).copied()
    }

    pub(super) fn action(&self, name: &str) -> Option<usize> {
        self.actions.get(name).copied()
    }

    /// A digest of what the numbers of actions, operators, facts, types and goals mean: equal for two versions of an
    /// agent in which they mean the same.
    pub(super) fn shape_of(&self, agent: &Agent) -> &str {
        self.shape.get_or_init(|| {
            let domain = agent.domain.domain();
            let actions = agent.operators.iter().filter_map(|at| agent.actions.get(*at)).map(|of| of.name.as_str());
            let facts = (0..agent.facts.len()).map(|at| domain.fact_name(FactId(at as u32)));
            let goals = agent.goals.iter().map(|goal| goal.name.as_str());
            let names = actions.chain(agent.types.names()).chain(goals);
            let mut hash = 0xcbf2_9ce4_8422_2325_u64;
            let mut feed = |text: &str| {
                for byte in text.bytes().chain([0]) {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                }
            };
            names.for_each(&mut feed);
            facts.for_each(feed);
            format!("{hash:016x}")
        })
    }

    pub(super) fn config(&self) -> &Value {
        &self.config
    }
}

/// A list of values as one value.
pub(super) fn list(items: Vec<Value>) -> Value {
    list_value(items)
}

/// An index of types alone, for tests of what needs no agent.
#[cfg(test)]
pub(super) fn of_types(types: &crate::value::Types) -> std::sync::Arc<AgentIndex> {
    let kin = types.iter().map(|(id, _)| std::iter::once(id).chain(types.supertypes(id)).collect()).collect();
    std::sync::Arc::new(AgentIndex {
        kin,
        by_default_name: IndexMap::new(),
        conditions: IndexMap::new(),
        actions: IndexMap::new(),
        config: Value::UNDEFINED,
        shape: OnceLock::new(),
        has_number_exprs: false,
    })
}
