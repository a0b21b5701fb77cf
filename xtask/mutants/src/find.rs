//! Finds the places of a file where an operator changes something.

use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Expr, UnOp};

use crate::sources::{Source, ships};
use crate::values;

/// Traits whose functions only write text, or are what a mutant would return.
const TEXT_TRAITS: [&str; 4] = ["Debug", "Display", "Error", "Default"];

/// Calls whose arguments only matter for speed.
const ROOM_FOR: [&str; 3] = ["with_capacity", "reserve", "reserve_exact"];

/// The longest part of a side of an operator that a description quotes.
const QUOTED_MAX: usize = 40;

/// A place where one or more mutants can be.
pub(crate) struct Site {
    pub(crate) form: Form,
    /// The bytes that the mutants replace, or the body of the function.
    pub(crate) range: Range<usize>,
    pub(crate) changes: Vec<Change>,
}

/// How mutants are written at a place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A function returns early. `at` is where its statements begin.
    Early { at: usize },
    /// An expression becomes another.
    Choice,
    /// The guard of an arm. The code of a change is `true` or `false`.
    Guard,
    /// An arm gets a guard. `at` is the end of its pattern.
    Arm { at: usize },
}

/// One mutant.
pub(crate) struct Change {
    pub(crate) line: usize,
    /// The function around it.
    pub(crate) function: String,
    /// What it changes, in words.
    pub(crate) what: String,
    pub(crate) code: String,
}

/// Returns the places of a file, from the outside to the inside.
pub(crate) fn sites(source: &Source) -> Vec<Site> {
    let mut finder = Finder { text: &source.text, sites: Vec::new(), names: Vec::new() };
    finder.visit_file(&source.code);
    finder.sites
}

struct Finder<'a> {
    text: &'a str,
    sites: Vec<Site>,
    /// The type and the functions around the code.
    names: Vec<String>,
}

impl Finder<'_> {
    fn bytes(&self, span: Span) -> Range<usize> {
        span.byte_range()
    }

    fn code(&self, node: &impl Spanned) -> &str {
        &self.text[self.bytes(node.span())]
    }

    /// The code on one line, and not too long.
    fn quoted(&self, node: &impl Spanned) -> String {
        let mut words = self.code(node).split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((end, _)) = words.char_indices().nth(QUOTED_MAX) {
            words.truncate(end);
            words.push('…');
        }
        words
    }

    fn change(&self, span: Span, what: String, code: String) -> Change {
        Change { line: span.start().line, function: self.names.join("::"), what, code }
    }

    fn add(&mut self, form: Form, range: Range<usize>, changes: Vec<Change>) {
        if !changes.is_empty() {
            self.sites.push(Site { form, range, changes });
        }
    }

    fn function(&mut self, attributes: &[Attribute], signature: &syn::Signature, block: &syn::Block) {
        let name = signature.ident.to_string();
        if !ships(attributes) || signature.constness.is_some() || name == "main" {
            return;
        }
        self.names.push(name);
        self.early(attributes, signature, block);
        visit::visit_block(self, block);
        self.names.pop();
    }

    fn early(&mut self, attributes: &[Attribute], signature: &syn::Signature, block: &syn::Block) {
        let body = self.code(block).trim_start_matches('{').trim_end_matches('}').trim().to_owned();
        let inner = attributes.iter().filter(|attribute| matches!(attribute.style, syn::AttrStyle::Inner(_)));
        let open = self.bytes(block.brace_token.span.open()).end;
        let at = inner.map(|attribute| self.bytes(attribute.span()).end).fold(open, usize::max);
        let values = values::of_return(&signature.output);
        let changes =
            values.into_iter().filter(|value| *value != body && !(value == "()" && body.is_empty()));
        let span = signature.fn_token.span;
        let changes = changes
            .map(|value| self.change(span, format!("returns {value} from {}", signature.ident), value))
            .collect();
        self.add(Form::Early { at }, self.bytes(block.span()), changes);
    }
}

/// The operators that stand in for an operator.
fn others(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Lt(_) => &["<=", ">"],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<"],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::Add(_) => &["-", "*"],
        BinOp::Sub(_) => &["+", "/"],
        BinOp::Mul(_) => &["+", "/"],
        BinOp::Div(_) => &["%", "*"],
        BinOp::Rem(_) => &["/", "+"],
        BinOp::BitAnd(_) => &["|", "^"],
        BinOp::BitOr(_) => &["&", "^"],
        BinOp::BitXor(_) => &["|", "&"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::AddAssign(_) => &["-=", "*="],
        BinOp::SubAssign(_) => &["+=", "/="],
        BinOp::MulAssign(_) => &["+=", "/="],
        BinOp::DivAssign(_) => &["%=", "*="],
        BinOp::BitAndAssign(_) => &["|=", "^="],
        BinOp::BitOrAssign(_) => &["&=", "^="],
        BinOp::BitXorAssign(_) => &["|=", "&="],
        _ => &[],
    }
}

/// Whether the expression is a condition with `let`, which stands where no other expression may stand.
fn has_let(side: &Expr) -> bool {
    match side {
        Expr::Let(_) => true,
        Expr::Binary(both) => has_let(&both.left) || has_let(&both.right),
        _ => false,
    }
}

/// The name of a type without its parameters.
fn type_name(of: &syn::Type) -> String {
    match of {
        syn::Type::Path(path) => {
            path.path.segments.last().map_or_else(String::new, |last| last.ident.to_string())
        }
        _ => String::new(),
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if ships(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        let of = block.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        if !ships(&block.attrs)
            || of.is_some_and(|last| TEXT_TRAITS.contains(&last.ident.to_string().as_str()))
        {
            return;
        }
        self.names.push(type_name(&block.self_ty));
        visit::visit_item_impl(self, block);
        self.names.pop();
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.names.push(item.ident.to_string());
        visit::visit_item_trait(self, item);
        self.names.pop();
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.attrs, &function.sig, block);
        }
    }

    // What the compiler computes cannot be chosen when a program starts.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if ships(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_expr_block(&mut self, block: &'ast syn::ExprBlock) {
        if ships(&block.attrs) {
            visit::visit_expr_block(self, block);
        }
    }

    fn visit_expr_if(&mut self, choice: &'ast syn::ExprIf) {
        if ships(&choice.attrs) {
            visit::visit_expr_if(self, choice);
        }
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        let is_for_room = matches!(&*call.func, Expr::Path(path)
            if path.path.segments.last().is_some_and(|last| ROOM_FOR.iter().any(|name| last.ident == name)));
        if !is_for_room {
            visit::visit_expr_call(self, call);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if ROOM_FOR.iter().any(|name| call.method == name) {
            self.visit_expr(&call.receiver);
        } else {
            visit::visit_expr_method_call(self, call);
        }
    }

    fn visit_expr_binary(&mut self, both: &'ast syn::ExprBinary) {
        if !has_let(&both.left) && !has_let(&both.right) {
            let (left, right) = (self.code(&both.left), self.code(&both.right));
            let quoted =
                format!("{} {} {}", self.quoted(&both.left), self.code(&both.op), self.quoted(&both.right));
            let changes = others(&both.op).iter().map(|other| {
                let what = format!("{other} in {quoted}");
                self.change(both.op.span(), what, format!("({left}) {other} ({right})"))
            });
            let changes = changes.collect();
            self.add(Form::Choice, self.bytes(both.span()), changes);
        }
        visit::visit_expr_binary(self, both);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        if matches!(unary.op, UnOp::Not(_) | UnOp::Neg(_)) {
            let what = format!("no {} in {}", self.code(&unary.op), self.quoted(unary));
            let change = self.change(unary.op.span(), what, self.code(&unary.expr).to_owned());
            self.add(Form::Choice, self.bytes(unary.span()), vec![change]);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_match(&mut self, choice: &'ast syn::ExprMatch) {
        let is_rest = |arm: &&syn::Arm| arm.guard.is_none() && matches!(arm.pat, syn::Pat::Wild(_));
        let rest = choice.arms.iter().find(is_rest).map(|arm| self.code(&arm.body).to_owned());
        for arm in &choice.arms {
            let pattern = self.quoted(&arm.pat);
            if let Some((_, guard)) = &arm.guard {
                let changes = ["true", "false"].map(|value| {
                    let what = format!("guard {value} instead of {}", self.quoted(guard));
                    self.change(guard.span(), what, value.to_owned())
                });
                if !has_let(guard) {
                    self.add(Form::Guard, self.bytes(guard.span()), changes.into());
                }
            } else if !is_rest(&arm) && rest.as_deref().is_some_and(|rest| rest != self.code(&arm.body)) {
                let at = self.bytes(arm.pat.span()).end;
                let change = self.change(arm.pat.span(), format!("no arm {pattern}"), String::new());
                self.add(Form::Arm { at }, self.bytes(arm.span()), vec![change]);
            }
        }
        visit::visit_expr_match(self, choice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(text: &str) -> Vec<String> {
        let code = syn::parse_file(text).expect("code");
        let source = Source { path: String::new(), text: text.to_owned(), code };
        sites(&source).into_iter().flat_map(|site| site.changes).map(|change| change.what).collect()
    }

    #[test]
    fn operators_values_and_arms_are_found() {
        assert_eq!(
            whats("fn f(a: u8) -> bool { match a { 1 => true, b if b > 2 => !x, _ => false } }"),
            [
                "returns true from f",
                "returns false from f",
                "no arm 1",
                "guard true instead of b > 2",
                "guard false instead of b > 2",
                ">= in b > 2",
                "< in b > 2",
                "no ! in !x",
            ]
        );
    }

    #[test]
    fn tests_texts_and_constants_are_left_alone() {
        let nothing: [&str; 0] = [];
        assert_eq!(whats("#[cfg(test)] mod t { fn f() -> bool { a == b } }"), nothing);
        assert_eq!(whats("#[test] fn f() { a == b; }"), nothing);
        assert_eq!(whats("impl fmt::Display for A { fn fmt(&self) -> R { a == b } }"), nothing);
        assert_eq!(whats("const A: u8 = 1 + 2; const fn f() -> u8 { 1 + 2 }"), nothing);
        assert_eq!(
            whats("fn f() { debug_assert!(a == b); tracing::info!(a = b + 1); }"),
            ["returns () from f"]
        );
        assert_eq!(whats("fn f() { Vec::with_capacity(a + 1) }"), ["returns () from f"]);
        assert_eq!(whats("fn f() {}"), nothing);
    }

    #[test]
    fn a_condition_with_let_stays_as_it_is() {
        let all = whats("fn f() { if a == 1 && let Some(b) = c {} }");
        assert_eq!(all, ["returns () from f", "!= in a == 1"]);
    }
}
