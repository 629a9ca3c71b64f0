//! Filters: their arguments and what they give.

use super::Checker;
use super::expr::Class;
use crate::prompt::ast::{Arg, Expr, Name, Span};
use crate::prompt::scope::Ty;
use crate::prompt::uses;

/// Filters with the fewest and most arguments by position, and the names of arguments by name.
pub(super) const FILTERS: &[(&str, usize, Option<usize>, &[&str])] = &[
    ("abs", 0, Some(0), &[]),
    ("attr", 1, Some(1), &[]),
    ("batch", 1, Some(2), &[]),
    ("bool", 0, Some(0), &[]),
    ("capitalize", 0, Some(0), &[]),
    ("chain", 0, None, &[]),
    ("count", 0, Some(0), &[]),
    ("d", 0, Some(2), &["default_value", "boolean"]),
    ("default", 0, Some(2), &["default_value", "boolean"]),
    ("dictsort", 0, Some(0), &["by", "reverse", "case_sensitive"]),
    ("e", 0, Some(0), &[]),
    ("escape", 0, Some(0), &[]),
    ("first", 0, Some(0), &[]),
    ("float", 0, Some(1), &["default"]),
    ("format", 0, None, &["*"]),
    ("groupby", 0, Some(1), &["attribute", "default", "case_sensitive"]),
    ("indent", 1, Some(3), &["width", "first", "blank"]),
    ("int", 0, Some(2), &["default", "base"]),
    ("items", 0, Some(0), &[]),
    ("join", 0, Some(1), &["d", "attribute"]),
    ("last", 0, Some(0), &[]),
    ("length", 0, Some(0), &[]),
    ("lines", 0, Some(0), &[]),
    ("list", 0, Some(0), &[]),
    ("lower", 0, Some(0), &[]),
    ("map", 0, None, &["*"]),
    ("max", 0, Some(0), &["attribute", "case_sensitive"]),
    ("min", 0, Some(0), &["attribute", "case_sensitive"]),
    ("pluralize", 0, Some(2), &[]),
    ("pprint", 0, Some(0), &[]),
    ("reject", 0, None, &[]),
    ("rejectattr", 1, None, &[]),
    ("replace", 2, Some(2), &[]),
    ("reverse", 0, Some(0), &[]),
    ("round", 0, Some(2), &["precision", "method"]),
    ("safe", 0, Some(0), &[]),
    ("select", 0, None, &[]),
    ("selectattr", 1, None, &[]),
    ("slice", 1, Some(2), &[]),
    ("sort", 0, Some(0), &["reverse", "attribute", "case_sensitive"]),
    ("split", 0, Some(2), &[]),
    ("string", 0, Some(0), &[]),
    ("sum", 0, Some(2), &["attribute", "start"]),
    ("title", 0, Some(0), &[]),
    ("tojson", 0, Some(1), &["indent"]),
    ("trim", 0, Some(1), &[]),
    ("truncate", 0, Some(4), &["length", "killwords", "end", "leeway"]),
    ("unique", 0, Some(0), &["attribute", "case_sensitive"]),
    ("upper", 0, Some(0), &[]),
    ("urlencode", 0, Some(0), &[]),
    ("wordcount", 0, Some(0), &[]),
    ("zip", 0, None, &[]),
];

/// What people write who know other languages, and what it is called here.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("len", "length"),
    ("size", "length"),
    ("str", "string"),
    ("json", "tojson"),
    ("to_json", "tojson"),
    ("strip", "trim"),
    ("uppercase", "upper"),
    ("lowercase", "lower"),
    ("url_encode", "urlencode"),
    ("or", "default"),
    ("filter", "select"),
    ("sorted", "sort"),
    ("reversed", "reverse"),
    ("boolean", "bool"),
    ("number", "float"),
    ("integer", "int"),
];

/// Filters of text; a list or object has none of these.
const OF_TEXT: &[&str] = &[
    "lower",
    "upper",
    "title",
    "capitalize",
    "trim",
    "replace",
    "split",
    "lines",
    "indent",
    "truncate",
    "wordcount",
    "format",
];

/// Filters of lists; a number or truth value has none of these.
const OF_LISTS: &[&str] = &[
    "length",
    "count",
    "first",
    "last",
    "join",
    "sort",
    "unique",
    "map",
    "select",
    "reject",
    "selectattr",
    "rejectattr",
    "groupby",
    "sum",
    "min",
    "max",
    "batch",
    "slice",
    "reverse",
    "list",
];

impl<'a> Checker<'a> {
    /// The type of `of | name(args)`.
    pub(super) fn filter(&mut self, of: &Expr, name: &Name, args: &[Arg]) -> Ty {
        if matches!(name.text.as_str(), "default" | "d") {
            let value = self.ty_within(of, true);
            let fallback = args.first().map(|arg| self.ty(arg.value()));
            args.iter().skip(1).for_each(|arg| drop(self.used(arg.value())));
            self.known_filter(name, args);
            return match (value, fallback) {
                (Ty::Null, Some(fallback)) => fallback,
                (value, Some(fallback)) => Ty::union([value.defined(), super::stmt::widened(fallback)]),
                (value, None) => Ty::union([value.defined(), Ty::Str]),
            };
        }
        let operand = self.used(of);
        self.filter_of(operand, Some(of), name, args)
    }

    /// The type of a filter over a value of a type; `of` is absent for `{% filter %}`.
    pub(super) fn filter_of(&mut self, operand: Ty, of: Option<&Expr>, name: &Name, args: &[Arg]) -> Ty {
        let types = self.arguments(args);
        if !self.known_filter(name, args) {
            return Ty::Any;
        }
        let span = of.map_or_else(|| name.span.clone(), |of| of.span.clone());
        if !self.fits(&operand, &name.text, &span) {
            return self.result(&name.text, &Ty::Any, args, &types);
        }
        self.result(&name.text, &operand, args, &types)
    }

    fn known_filter(&mut self, name: &Name, args: &[Arg]) -> bool {
        let shown = &name.text;
        let Some((_, least, most, named)) = FILTERS.iter().find(|(known, ..)| known == shown) else {
            let report = self.error("unknown-filter", &name.span, format!("there is no filter `{shown}`"));
            match OTHER_NAMES.iter().find(|(other, _)| other == shown) {
                Some((_, right)) => report.help(format!("did you mean `{right}`?")).fix(right),
                None => report.suggest(shown, FILTERS.iter().map(|(name, ..)| *name)),
            };
            return false;
        };
        let given = |wanted: &str| args.iter().any(|arg| matches!(arg, Arg::Named(name, _) if name.text == wanted));
        let by_name = named.iter().filter(|wanted| given(wanted)).count();
        arity(self, "filter", name, args, least.saturating_sub(by_name), *most);
        for arg in args {
            if let Arg::Named(argument, _) = arg
                && !named.contains(&"*")
                && !named.contains(&argument.text.as_str())
            {
                let message = format!("the filter `{shown}` has no argument `{}`", argument.text);
                let report = self.error("wrong-arguments", &argument.span, message);
                let report = report.suggest(&argument.text, named.iter().copied());
                if let Some(finding) = report.finding
                    && finding.help.is_empty()
                {
                    let listed = named.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                    let help = if listed.is_empty() { "leave it out".to_owned() } else { format!("it takes {listed}") };
                    finding.help.push(help);
                }
            }
        }
        true
    }

    /// Reports an operand that a filter can do nothing with.
    fn fits(&mut self, operand: &Ty, name: &str, span: &Span) -> bool {
        let Some(class) = Class::of(operand) else { return true };
        let wrong = (OF_TEXT.contains(&name) && matches!(class, Class::List | Class::Object))
            || (OF_LISTS.contains(&name) && matches!(class, Class::Number | Class::Bool))
            || (matches!(name, "abs" | "round") && class != Class::Number)
            || (name == "items" && class != Class::Object)
            || (name == "dictsort" && class != Class::Object)
            || class == Class::Other;
        if !wrong {
            return true;
        }
        let what = self.named(operand);
        let wanted = match () {
            () if OF_TEXT.contains(&name) => "text",
            () if OF_LISTS.contains(&name) => "a list or text",
            () if matches!(name, "items" | "dictsort") => "a map or object",
            () if class == Class::Other => "a value",
            () => "a number",
        };
        let report =
            self.error("type-mismatch", span, format!("the filter `{name}` wants {wanted}, and this is {what}"));
        if class == Class::List && OF_TEXT.contains(&name) {
            report.help(format!("apply it to every element: `… | map(\"{name}\")`, or join them first"));
        }
        false
    }

    fn result(&mut self, name: &str, operand: &Ty, args: &[Arg], types: &[Ty]) -> Ty {
        let element = element(operand);
        let list = |element: Ty| Ty::List(Box::new(element));
        match name {
            "length" | "count" | "int" | "wordcount" => Ty::Int,
            "float" | "round" => Ty::Number,
            "abs" => operand.clone(),
            "bool" => Ty::Bool,
            "lower" | "upper" | "title" | "capitalize" | "trim" | "replace" | "join" | "string" | "tojson"
            | "urlencode" | "indent" | "truncate" | "format" | "pprint" | "escape" | "e" | "safe" | "pluralize" => {
                self.attribute_argument(&element, named_arg(args, "attribute"));
                Ty::Str
            }
            "split" | "lines" => list(Ty::Str),
            "first" | "last" => element,
            "min" | "max" => {
                self.attribute_argument(&element, named_arg(args, "attribute"));
                element
            }
            "sort" | "unique" => {
                self.attribute_argument(&element, named_arg(args, "attribute"));
                list(element)
            }
            "reverse" if matches!(operand, Ty::Str | Ty::Enum(_)) => Ty::Str,
            "list" | "reverse" => list(element),
            "batch" | "slice" => list(list(element)),
            "items" | "dictsort" => {
                let value = match operand {
                    Ty::Map(value) => (**value).clone(),
                    _ => Ty::Any,
                };
                list(Ty::Tuple(vec![Ty::Str, value]))
            }
            "sum" => {
                let of =
                    self.attribute_argument(&element, named_arg(args, "attribute").or_else(|| positional(args, 0)));
                match of.unwrap_or(element) {
                    Ty::Int => Ty::Int,
                    _ => Ty::Number,
                }
            }
            "attr" => match args.first().and_then(|arg| uses::literal(arg.value()).map(|text| (text, arg.value()))) {
                Some((attribute, at)) => self.path_type(operand, attribute, &at.span),
                None => Ty::Any,
            },
            "groupby" => {
                let by = named_arg(args, "attribute").or_else(|| positional(args, 0));
                let grouper = self.attribute_argument(&element, by).unwrap_or(Ty::Any).defined();
                list(Ty::Tuple(vec![grouper, list(element)]))
            }
            "map" => self.map_filter(&element, args, types),
            "select" | "reject" => {
                self.test_argument(positional(args, 0));
                list(element)
            }
            "selectattr" | "rejectattr" => {
                self.attribute_argument(&element, positional(args, 0));
                self.test_argument(positional(args, 1));
                list(element)
            }
            _ => Ty::Any,
        }
    }

    fn map_filter(&mut self, element: &Ty, args: &[Arg], types: &[Ty]) -> Ty {
        if let Some(attribute) = named_arg(args, "attribute") {
            let ty = self.attribute_argument(element, Some(attribute)).unwrap_or(Ty::Any);
            let default = args.iter().zip(types).find_map(|(arg, ty)| match arg {
                Arg::Named(name, _) if name.text == "default" => Some(ty.clone()),
                _ => None,
            });
            let ty = match default {
                Some(default) => Ty::union([ty.defined(), super::stmt::widened(default)]),
                None => ty.defined(),
            };
            return Ty::List(Box::new(ty));
        }
        let Some(first) = positional(args, 0) else { return Ty::Any };
        let Some(text) = uses::literal(first) else { return Ty::List(Box::new(Ty::Any)) };
        // Inside the quotes.
        let name = Name { text: text.to_owned(), span: inside(&first.span) };
        let rest = &args[1..];
        let ty = if matches!(text, "default" | "d") {
            self.known_filter(&name, rest);
            Ty::Any
        } else if self.known_filter(&name, rest) {
            let rest_types = types.get(1..).unwrap_or_default();
            if self.fits(element, text, &name.span) { self.result(text, element, rest, rest_types) } else { Ty::Any }
        } else {
            Ty::Any
        };
        Ty::List(Box::new(ty))
    }

    /// Checks an `attribute="a.b"` against the elements; its type where it is known.
    fn attribute_argument(&mut self, element: &Ty, argument: Option<&Expr>) -> Option<Ty> {
        let argument = argument?;
        let path = uses::literal(argument)?;
        Some(self.path_type(element, path, &argument.span))
    }

    fn path_type(&mut self, element: &Ty, path: &str, span: &Span) -> Ty {
        let mut ty = element.clone();
        let mut at = span.start + 1;
        for part in path.split('.') {
            if part.parse::<usize>().is_ok() {
                ty = self::element(&ty);
            } else {
                let here = at..at + part.len();
                let here = if here.end < span.end { here } else { span.clone() };
                let dummy = Expr { kind: crate::prompt::ast::ExprKind::Var("item".to_owned()), span: here.clone() };
                ty = self.member_of(&ty.defined(), &dummy, part, &here);
            }
            at += part.len() + 1;
        }
        ty
    }

    fn test_argument(&mut self, argument: Option<&Expr>) {
        let Some((text, span)) = argument.and_then(|expr| uses::literal(expr).map(|text| (text, &expr.span))) else {
            return;
        };
        if !super::compare::TESTS.iter().any(|(name, ..)| *name == text) {
            let names = super::compare::TESTS.iter().map(|(name, ..)| *name);
            self.error("unknown-test", &inside(span), format!("there is no test `{text}`")).suggest(text, names);
        }
    }
}

/// What a loop over a value sees; any where that is not known.
pub(super) fn element(ty: &Ty) -> Ty {
    match ty {
        Ty::List(element) => (**element).clone(),
        Ty::Tuple(parts) => Ty::union(parts.iter().cloned()),
        Ty::Str | Ty::Enum(_) | Ty::Map(_) | Ty::Record(_) | Ty::Object(_) => Ty::Str,
        Ty::Optional(inner) => element(inner),
        Ty::Union(members) => Ty::union(members.iter().map(element)),
        _ => Ty::Any,
    }
}

/// Reports a wrong number of arguments by position.
pub(super) fn arity(
    checker: &mut Checker<'_>,
    what: &str,
    name: &Name,
    args: &[Arg],
    least: usize,
    most: Option<usize>,
) {
    if args.iter().any(|arg| matches!(arg, Arg::Splat(_))) {
        return;
    }
    let given = args.iter().filter(|arg| matches!(arg, Arg::Pos(_))).count();
    let shown = &name.text;
    if given < least {
        let message = format!("the {what} `{shown}` wants {}, and {given} given", counted(least));
        checker.error("wrong-arguments", &name.span, message);
    } else if let Some(most) = most
        && given > most
    {
        let extra = args.iter().filter(|arg| matches!(arg, Arg::Pos(_))).nth(most);
        let span = extra.map_or_else(|| name.span.clone(), |arg| arg.value().span.clone());
        let message = match most {
            0 => format!("the {what} `{shown}` takes no arguments"),
            _ => format!("the {what} `{shown}` takes at most {}", counted(most)),
        };
        checker.error("wrong-arguments", &span, message);
    }
}

fn counted(count: usize) -> String {
    if count == 1 { "1 argument".to_owned() } else { format!("{count} arguments") }
}

fn positional(args: &[Arg], at: usize) -> Option<&Expr> {
    let mut by_position = args.iter().filter_map(|arg| match arg {
        Arg::Pos(expr) => Some(expr),
        Arg::Named(..) | Arg::Splat(_) => None,
    });
    by_position.nth(at)
}

fn named_arg<'e>(args: &'e [Arg], wanted: &str) -> Option<&'e Expr> {
    args.iter().find_map(|arg| match arg {
        Arg::Named(name, expr) if name.text == wanted => Some(expr),
        _ => None,
    })
}

/// The range of a string literal without its quotes.
pub(super) fn inside(span: &Span) -> Span {
    if span.len() >= 2 { span.start + 1..span.end - 1 } else { span.clone() }
}
