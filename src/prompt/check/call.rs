//! Calls: blackboard functions, built-in functions, macros, blocks.

use super::filter::{FILTERS, arity, inside};
use super::{Checker, Frame};
use crate::prompt::ast::{Arg, Expr, ExprKind, Macro, Name};
use crate::prompt::scope::{Callable, Ty};
use crate::prompt::uses::{self, FUNCTIONS};
use indexmap::IndexMap;
use std::sync::Arc;

/// Functions that every template has.
const BUILT_IN: &[&str] = &["range", "dict", "namespace"];

impl<'a> Checker<'a> {
    /// A function looked at as a value.
    pub(super) fn function_value(&self, name: &str) -> Option<Ty> {
        let known = BUILT_IN.contains(&name)
            || (self.scope.functions && FUNCTIONS.contains(&name))
            || (name == "super" && self.block.is_some())
            || name == "caller";
        known.then(|| callable(name, Ty::Any))
    }

    /// The type of `callee(args)`.
    pub(super) fn call(&mut self, callee: &Expr, args: &[Arg], whole: &Expr) -> Ty {
        match &callee.kind {
            ExprKind::Var(name) => {
                let name = Name { text: name.clone(), span: callee.span.clone() };
                self.call_name(&name, args, whole)
            }
            ExprKind::Attr(of, name) => {
                if matches!(&of.kind, ExprKind::Var(var) if var == "self") && !self.scope.vars.contains_key("self") {
                    return self.call_block_by_name(name, args);
                }
                self.method(of, name, args)
            }
            _ => {
                let ty = self.used(callee);
                let name = Name { text: "it".to_owned(), span: callee.span.clone() };
                self.call_value(ty, &name, args)
            }
        }
    }

    fn call_name(&mut self, name: &Name, args: &[Arg], whole: &Expr) -> Ty {
        let text = name.text.as_str();
        if let Some(ty) = self.local(text).cloned() {
            if text == "loop" && matches!(ty, Ty::Record(_)) {
                return self.call_loop(name, args);
            }
            return self.call_value(ty, name, args);
        }
        if text == "super" {
            return self.call_super(name, args);
        }
        if self.scope.functions && FUNCTIONS.contains(&text) {
            return self.call_function(name, args);
        }
        match text {
            "range" => {
                let types = self.arguments(args);
                arity(self, "function", name, args, 1, Some(3));
                for (ty, arg) in types.iter().zip(args) {
                    if matches!(ty, Ty::Str | Ty::List(_) | Ty::Bool | Ty::Number | Ty::Named(_)) {
                        let what = self.named(ty);
                        let message = format!("`range` wants whole numbers, and this is {what}");
                        self.error("type-mismatch", &arg.value().span, message);
                    }
                }
                return Ty::List(Box::new(Ty::Int));
            }
            "dict" | "namespace" => {
                self.arguments(args);
                return Ty::Any;
            }
            "caller" => {
                self.arguments(args);
                return Ty::Str;
            }
            _ => {}
        }
        if let Some(ty) = self.scope.vars.get(text).cloned() {
            self.out.mentions.insert(text.to_owned());
            return self.call_value(ty, name, args);
        }
        if self.scope.conditions.contains(text) || self.is_type_name(text) {
            self.arguments(args);
            let message = format!("`{text}` is a variable, not a function");
            self.error("unknown-function", &name.span, message).help("leave out `()`");
            return Ty::Any;
        }
        self.arguments(args);
        if !self.lenient {
            self.unknown_function(name, whole, args);
        }
        Ty::Any
    }

    fn unknown_function(&mut self, name: &Name, whole: &Expr, args: &[Arg]) {
        let text = name.text.as_str();
        let _ = whole;
        let mut names: Vec<String> = BUILT_IN.iter().map(|name| (*name).to_owned()).collect();
        if self.scope.functions {
            names.extend(FUNCTIONS.iter().map(|name| (*name).to_owned()));
        }
        for frame in &self.frames {
            let callable = frame.vars.iter().filter(|(_, ty)| matches!(ty, Ty::Callable(_)));
            names.extend(callable.map(|(name, _)| name.clone()));
        }
        let filter = match text {
            "len" => Some("length"),
            "str" => Some("string"),
            "json" => Some("tojson"),
            _ => FILTERS.iter().map(|(name, ..)| *name).find(|filter| *filter == text),
        };
        let unavailable = FUNCTIONS.contains(&text);
        let subject = args.first().and_then(|arg| super::path_of(arg.value()));
        let message = if unavailable {
            format!("the function `{text}` is not available here")
        } else {
            format!("there is no function `{text}`")
        };
        let report = self.error("unknown-function", &name.span, message);
        if unavailable {
            return;
        }
        match filter {
            Some(filter) => {
                let subject = subject.unwrap_or_else(|| "…".to_owned());
                report.help(format!("it is a filter: `{subject} | {filter}`"));
            }
            None => drop(report.suggest(text, names.iter().map(String::as_str))),
        }
    }

    /// `last("Type")` and its like.
    fn call_function(&mut self, name: &Name, args: &[Arg]) -> Ty {
        let text = name.text.as_str();
        if text == "now" {
            self.arguments(args);
            arity(self, "function", name, args, 0, Some(0));
            return Ty::Str;
        }
        arity(self, "function", name, args, 1, Some(1));
        let argument = args.first().map(Arg::value);
        let Some((literal, span)) = argument.and_then(|arg| uses::literal(arg).map(|text| (text, inside(&arg.span))))
        else {
            if let Some(argument) = argument {
                let what = if text == "ran" { "an action's" } else { "a type's" };
                let message = format!("`{text}` wants {what} name in quotes");
                let report = self.error("wrong-arguments", &argument.span, message);
                if let ExprKind::Var(var) = &argument.kind {
                    report.help(format!("write `{text}(\"{var}\")`"));
                }
            }
            return self.function_result(text, Ty::Any);
        };
        if text == "ran" {
            self.out.ran.insert(literal.to_owned());
            let actions = self.scope.actions.clone();
            if let Some(actions) = actions
                && !actions.contains(literal)
            {
                self.error("unknown-action", &span, format!("there is no action `{literal}`"))
                    .suggest(literal, actions.iter().map(String::as_str));
            }
            return Ty::Bool;
        }
        match self.types.id(literal) {
            Some(id) => {
                self.out.types.insert(literal.to_owned());
                let ty = Ty::named(self.types, id);
                self.function_result(text, ty)
            }
            None => {
                let types = self.types;
                self.error("unknown-type", &span, format!("there is no type `{literal}`"))
                    .suggest(literal, types.names());
                self.function_result(text, Ty::Any)
            }
        }
    }

    fn function_result(&self, name: &str, ty: Ty) -> Ty {
        let harmless = self.scope.position == crate::prompt::scope::Position::Truth;
        match name {
            "last" if harmless => ty,
            "last" => ty.optional_unless_any(),
            "all" => Ty::List(Box::new(ty)),
            "count" => Ty::Int,
            _ => Ty::Bool,
        }
    }

    fn call_loop(&mut self, name: &Name, args: &[Arg]) -> Ty {
        self.arguments(args);
        let recursive = self.frames.iter().rev().find(|frame| frame.vars.contains_key("loop"));
        if !recursive.is_some_and(|frame| frame.recursive) {
            self.error("unknown-function", &name.span, "`loop` can only be called in a `for … recursive`")
                .help("write `{% for … in … recursive %}`");
        }
        Ty::Str
    }

    /// Calls a value of a known type.
    pub(super) fn call_value(&mut self, ty: Ty, name: &Name, args: &[Arg]) -> Ty {
        match ty {
            Ty::Callable(callable) => self.call_macro(&callable, name, args),
            Ty::Any => {
                self.arguments(args);
                Ty::Any
            }
            Ty::Optional(inner) => self.call_value(*inner, name, args),
            other => {
                self.arguments(args);
                let what = self.named(&other);
                let message = format!("`{}` is {what}, not a function", name.text);
                self.error("unknown-function", &name.span, message).help("leave out `()`");
                Ty::Any
            }
        }
    }

    fn call_macro(&mut self, callable: &Arc<Callable>, name: &Name, args: &[Arg]) -> Ty {
        let types: Vec<Ty> = args.iter().map(|arg| self.ty(arg.value())).collect();
        let Some(parameters) = &callable.parameters else { return callable.returns.clone() };
        let open = args.iter().any(|arg| matches!(arg, Arg::Splat(_)));
        let mut given: IndexMap<&str, Ty> = IndexMap::new();
        let mut position = 0;
        for (arg, ty) in args.iter().zip(types) {
            match arg {
                Arg::Pos(value) => {
                    match parameters.get(position) {
                        Some(parameter) => drop(given.insert(parameter, ty)),
                        None if !open => {
                            let message = match parameters.len() {
                                0 => format!("`{}` takes no arguments", callable.name),
                                1 => format!("`{}` takes at most 1 argument", callable.name),
                                most => format!("`{}` takes at most {most} arguments", callable.name),
                            };
                            self.error("wrong-arguments", &value.span, message);
                        }
                        None => {}
                    }
                    position += 1;
                }
                Arg::Named(argument, _) => match parameters.iter().find(|known| **known == argument.text) {
                    Some(parameter) => drop(given.insert(parameter, ty)),
                    None if argument.text == "caller" => {}
                    None => {
                        let message = format!("`{}` has no argument `{}`", callable.name, argument.text);
                        let known = parameters.iter().map(String::as_str);
                        self.error("wrong-arguments", &argument.span, message).suggest(&argument.text, known);
                    }
                },
                Arg::Splat(_) => {}
            }
        }
        if !open {
            let missing = parameters.iter().take(callable.required).filter(|name| !given.contains_key(name.as_str()));
            let missing: Vec<String> = missing.map(|name| format!("`{name}`")).collect();
            if !missing.is_empty() {
                let message = format!("`{}` wants {}", callable.name, missing.join(" and "));
                self.error("wrong-arguments", &name.span, message);
                return callable.returns.clone();
            }
        }
        if let Some(id) = callable.id
            && !open
        {
            let types = parameters.iter().map(|name| given.get(name.as_str()).cloned()).collect();
            self.macro_body(id, types, name);
        }
        callable.returns.clone()
    }

    /// Checks the body of a macro with the types that it is called with; an argument that is left out has its default.
    fn macro_body(&mut self, id: usize, given: Vec<Option<Ty>>, name: &Name) {
        let Some(found) = self.macros.get(id).cloned() else { return };
        let types: Vec<Ty> = given
            .into_iter()
            .zip(&found.decl.parameters)
            .map(|(ty, (_, default))| match (ty, default) {
                (Some(ty), _) => super::stmt::widened(ty),
                (None, Some(_)) => Ty::Any,
                (None, None) => Ty::Any.optional_or_absent(),
            })
            .collect();
        if found.seen.contains(&types) || types.iter().all(|ty| *ty == Ty::Any) {
            return;
        }
        if let Some(found) = self.macros.get_mut(id) {
            found.seen.push(types.clone());
        }
        let how = format!("`{}` is called here", found.decl.name.text);
        let span = name.span.clone();
        let lenient = std::mem::replace(&mut self.lenient, true);
        self.elsewhere(found.file.clone(), &span, how, |checker| {
            let frames = std::mem::replace(&mut checker.frames, found.frames.clone());
            let facts = std::mem::take(&mut checker.facts);
            checker.parameters_and_body(found.decl, types);
            checker.frames = frames;
            checker.facts = facts;
        });
        self.lenient = lenient;
    }

    /// Looks at a macro's body with parameters of these types.
    pub(super) fn parameters_and_body(&mut self, decl: &'a Macro, types: Vec<Ty>) {
        let vars = decl.parameters.iter().zip(types).map(|((name, _), ty)| (name.text.clone(), ty)).collect();
        self.conditional += 1;
        self.framed(Frame { vars, recursive: false }, |checker| {
            checker.facts.extend(decl.parameters.iter().map(|(name, _)| super::Fact::Forget(name.text.clone())));
            checker.stmts(&decl.body);
        });
        self.conditional -= 1;
    }

    fn call_super(&mut self, name: &Name, args: &[Arg]) -> Ty {
        arity(self, "function", name, args, 0, Some(0));
        let Some((block, level)) = self.block.clone() else {
            self.error("unknown-function", &name.span, "`super()` is only in a `{% block %}`");
            return Ty::Str;
        };
        let above = self.blocks.get(&block).and_then(|bodies| bodies.get(level + 1)).cloned();
        match above {
            Some(body) => {
                let how = "`super()` is called here".to_owned();
                self.elsewhere(body.file, &name.span.clone(), how, |checker| {
                    let before = checker.block.replace((block, level + 1));
                    checker.framed(Frame::default(), |checker| checker.stmts(body.body));
                    checker.block = before;
                });
            }
            None if !self.lenient => {
                let message = format!("the block `{block}` has no other above it");
                self.error("unknown-block", &name.span, message).help("extend a template that has such a block");
            }
            None => {}
        }
        Ty::Str
    }

    fn call_block_by_name(&mut self, name: &Name, args: &[Arg]) -> Ty {
        arity(self, "block", name, args, 0, Some(0));
        if !self.blocks.contains_key(&name.text) && !self.lenient {
            let names: Vec<String> = self.blocks.keys().cloned().collect();
            let message = format!("there is no block `{}`", name.text);
            self.error("unknown-block", &name.span, message).suggest(&name.text, names.iter().map(String::as_str));
        }
        Ty::Str
    }
}

/// A function that takes anything.
pub(super) fn callable(name: &str, returns: Ty) -> Ty {
    Ty::Callable(Arc::new(Callable { name: name.to_owned(), parameters: None, required: 0, returns, id: None }))
}

impl Ty {
    /// Of a parameter that was left out: nothing is known but that it is absent.
    fn optional_or_absent(self) -> Ty {
        Ty::Optional(Box::new(self))
    }
}
