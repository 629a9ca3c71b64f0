//! The blackboard: typed objects in the order they came. Objects are never changed, only added and hidden.

use std::sync::{Arc, OnceLock};

use minijinja::Value as View;
use serde_json::Value;

use crate::program::Input;
use crate::prompt::{Templates, object_value};
use crate::value::TypeId;

use super::index::AgentIndex;

/// One object.
#[derive(Debug)]
pub struct Object {
    /// Its concrete type.
    pub type_id: TypeId,
    /// The name it is bound under, when it has one.
    pub name: Option<Arc<str>>,
    /// Its value, validated.
    pub value: Arc<Value>,
    /// As templates see it; made when first asked for.
    view: OnceLock<View>,
}

impl Object {
    /// The object as templates see it.
    pub fn view(&self, templates: &Arc<Templates>) -> View {
        self.view.get_or_init(|| object_value(templates, self.type_id, &self.value)).clone()
    }
}

/// The type of an object whose own is gone from the program: objects of it are nothing that anyone asks for.
const NO_TYPE: TypeId = TypeId(u32::MAX);

/// Typed objects in the order they came. A clone is cheap and keeps what was there.
#[derive(Clone, Debug)]
pub struct Blackboard {
    index: Arc<AgentIndex>,
    objects: Vec<Arc<Object>>,
    /// By object: no longer visible.
    hidden: Vec<bool>,
    /// By type: how many visible objects are of it or a subtype.
    counts: Vec<u32>,
}

/// What an input of an action is bound to: positions on the blackboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// One object.
    One(usize),
    /// All of them, oldest first.
    All(Vec<usize>),
    /// An optional input without an object.
    Absent,
}

impl Blackboard {
    /// An empty blackboard for an agent.
    pub fn new(index: Arc<AgentIndex>) -> Blackboard {
        let counts = vec![0; index.type_count()];
        Blackboard { index, objects: Vec::new(), hidden: Vec::new(), counts }
    }

    /// Adds an object, the newest from then on, and returns its position. A name is bound anew.
    pub fn add(&mut self, type_id: TypeId, name: Option<Arc<str>>, value: Arc<Value>) -> usize {
        for kin in self.index.kin(type_id) {
            self.counts[kin.0 as usize] += 1;
        }
        self.objects.push(Arc::new(Object { type_id, name, value, view: OnceLock::new() }));
        self.hidden.push(false);
        self.objects.len() - 1
    }

    /// Hides an object; it keeps its position. Returns whether it was visible.
    pub fn hide(&mut self, at: usize) -> bool {
        let Some(hidden) = self.hidden.get_mut(at).filter(|hidden| !**hidden) else { return false };
        *hidden = true;
        for kin in self.index.kin(self.objects[at].type_id) {
            self.counts[kin.0 as usize] -= 1;
        }
        true
    }

    /// The same objects at the same positions for another program: `convert` gives each its type there, and its value in
    /// the form that it has there; `None`: there is no such type any more.
    pub(super) fn converted(
        &self,
        index: Arc<AgentIndex>,
        convert: impl Fn(usize, &Object) -> Option<(TypeId, Arc<Value>)>,
    ) -> Blackboard {
        let mut board = Blackboard::new(index);
        for (at, object) in self.objects.iter().enumerate() {
            let (type_id, value) = convert(at, object).unwrap_or((NO_TYPE, object.value.clone()));
            board.add(type_id, object.name.clone(), value);
            if self.hidden[at] {
                board.hide(at);
            }
        }
        board
    }

    /// How many objects were ever added.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether nothing was ever added.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The object at a position, hidden or not.
    pub fn get(&self, at: usize) -> Option<&Arc<Object>> {
        self.objects.get(at)
    }

    /// Whether the object at a position is visible.
    pub fn is_visible(&self, at: usize) -> bool {
        self.hidden.get(at) == Some(&false)
    }

    /// Visible objects with their positions, oldest first.
    pub fn visible(&self) -> impl DoubleEndedIterator<Item = (usize, &Arc<Object>)> {
        self.objects.iter().enumerate().filter(|(at, _)| !self.hidden[*at])
    }

    /// How many visible objects are of a type or a subtype.
    pub fn count(&self, id: TypeId) -> usize {
        self.counts.get(id.0 as usize).map_or(0, |count| *count as usize)
    }

    /// Visible objects of a type or a subtype with their positions, oldest first.
    pub fn of_type(&self, id: TypeId) -> impl DoubleEndedIterator<Item = (usize, &Arc<Object>)> {
        self.visible().filter(move |(_, object)| self.is_a(object.type_id, id))
    }

    /// The newest visible object of a type or a subtype.
    pub fn newest(&self, id: TypeId) -> Option<(usize, &Arc<Object>)> {
        if self.count(id) == 0 { None } else { self.of_type(id).next_back() }
    }

    /// The newest visible object bound under a name, when it is of the type or a subtype: a name that was bound again to
    /// something else is gone.
    pub fn named(&self, name: &str, id: TypeId) -> Option<(usize, &Arc<Object>)> {
        let bound = self.visible().rfind(|(_, object)| object.name.as_deref() == Some(name));
        bound.filter(|(_, object)| self.is_a(object.type_id, id))
    }

    /// The newest visible object of any type.
    pub fn last(&self) -> Option<(usize, &Arc<Object>)> {
        self.visible().next_back()
    }

    /// Whether objects of type `id` also are `of`.
    pub fn is_a(&self, id: TypeId, of: TypeId) -> bool {
        self.index.kin(id).contains(&of)
    }

    /// Matches inputs with objects (language.md 4): the newest of the type or a subtype, distinct ones for several
    /// inputs; inputs looked up by name choose first, then the most specific type. `None` when a required one is missing.
    pub fn bind(&self, inputs: &[Input]) -> Option<Vec<Bound>> {
        let bound = self.bind_each(inputs);
        let is_missing = |(input, bound): (&Input, &Bound)| *bound == Bound::Absent && !input.optional;
        (!inputs.iter().zip(&bound).any(is_missing)).then_some(bound)
    }

    /// The same, where each input that has no object is `Absent`.
    pub fn bind_each(&self, inputs: &[Input]) -> Vec<Bound> {
        let mut order: Vec<usize> = (0..inputs.len()).collect();
        let rank = |at: &usize| {
            let input = &inputs[*at];
            (!input.named, std::cmp::Reverse(self.index.kin(input.type_id).len()), input.optional)
        };
        order.sort_by_key(rank);
        let mut bound: Vec<Bound> = vec![Bound::Absent; inputs.len()];
        let mut taken: Vec<usize> = Vec::new();
        for at in order {
            let input = &inputs[at];
            let found = if input.list { self.all_of(input) } else { self.one_of(input, &taken) };
            if let Bound::One(object) = found {
                taken.push(object);
            }
            bound[at] = found;
        }
        bound
    }

    fn all_of(&self, input: &Input) -> Bound {
        let all: Vec<usize> = self.of_type(input.type_id).map(|(at, _)| at).collect();
        if all.is_empty() && !input.optional { Bound::Absent } else { Bound::All(all) }
    }

    fn one_of(&self, input: &Input, taken: &[usize]) -> Bound {
        if input.named {
            return self.named(&input.name, input.type_id).map_or(Bound::Absent, |(at, _)| Bound::One(at));
        }
        if self.count(input.type_id) == 0 {
            return Bound::Absent;
        }
        let free = self.of_type(input.type_id).rfind(|(at, _)| !taken.contains(at));
        free.map_or(Bound::Absent, |(at, _)| Bound::One(at))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::index::of_types;
    use super::*;
    use crate::value::{ObjectDef, TypeDef, Types};

    struct Board {
        board: Blackboard,
        types: Types,
    }

    impl Board {
        /// Person, Customer (a Person) and Story.
        fn new() -> Board {
            let mut types = Types::default();
            let person = types.insert(TypeDef::object("Person", ObjectDef::default()));
            types.insert(TypeDef { supertypes: vec![person], ..TypeDef::object("Customer", ObjectDef::default()) });
            types.insert(TypeDef::object("Story", ObjectDef::default()));
            Board { board: Blackboard::new(of_types(&types)), types }
        }

        fn id(&self, name: &str) -> TypeId {
            self.types.id(name).unwrap()
        }

        fn add(&mut self, type_name: &str, name: Option<&str>) -> usize {
            let id = self.id(type_name);
            self.board.add(id, name.map(Arc::from), Arc::new(json!({})))
        }

        fn input(&self, name: &str, type_name: &str) -> Input {
            Input { name: name.to_owned(), type_id: self.id(type_name), list: false, optional: false, named: false }
        }
    }

    #[test]
    fn the_newest_object_of_the_type_or_a_subtype_matches() {
        let mut board = Board::new();
        board.add("Person", None);
        let newest = board.add("Customer", None);
        board.add("Story", None);
        assert_eq!(board.board.bind(&[board.input("p", "Person")]), Some(vec![Bound::One(newest)]));
        assert_eq!((board.board.count(board.id("Person")), board.board.count(board.id("Customer"))), (2, 1));
    }

    #[test]
    fn several_inputs_get_distinct_objects_and_the_most_specific_chooses_first() {
        let mut board = Board::new();
        let older = board.add("Person", None);
        let newer = board.add("Customer", None);
        let inputs = [board.input("person", "Person"), board.input("customer", "Customer")];
        assert_eq!(board.board.bind(&inputs), Some(vec![Bound::One(older), Bound::One(newer)]));
        let twice = [board.input("a", "Customer"), board.input("b", "Customer")];
        assert_eq!(board.board.bind(&twice), None);
        let optional = [Input { optional: true, ..board.input("a", "Customer") }, board.input("b", "Customer")];
        assert_eq!(board.board.bind(&optional), Some(vec![Bound::Absent, Bound::One(newer)]));
    }

    #[test]
    fn lists_are_oldest_first_and_need_one_unless_optional() {
        let mut board = Board::new();
        let stories = Input { list: true, ..board.input("stories", "Story") };
        assert_eq!(board.board.bind(std::slice::from_ref(&stories)), None);
        let none = Input { optional: true, ..stories.clone() };
        assert_eq!(board.board.bind(&[none]), Some(vec![Bound::All(vec![])]));
        let (first, second) = (board.add("Story", None), board.add("Story", None));
        assert_eq!(board.board.bind(&[stories]), Some(vec![Bound::All(vec![first, second])]));
    }

    #[test]
    fn a_name_that_is_bound_again_means_the_newer_object() {
        let mut board = Board::new();
        board.add("Person", Some("owner"));
        let newer = board.add("Person", Some("owner"));
        board.add("Person", None);
        let named = Input { named: true, ..board.input("owner", "Person") };
        assert_eq!(board.board.bind(std::slice::from_ref(&named)), Some(vec![Bound::One(newer)]));
        board.add("Story", Some("owner"));
        assert_eq!(board.board.bind(&[named]), None);
    }

    #[test]
    fn hidden_objects_stay_but_do_not_match() {
        let mut board = Board::new();
        let story = board.add("Story", None);
        assert!(board.board.hide(story) && !board.board.hide(story));
        assert_eq!(board.board.bind(&[board.input("s", "Story")]), None);
        assert_eq!((board.board.count(board.id("Story")), board.board.len()), (0, 1));
        assert!(board.board.get(story).is_some() && board.board.last().is_none());
    }
}
