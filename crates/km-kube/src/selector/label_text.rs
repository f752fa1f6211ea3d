//! The query text of label selectors: a small recursive-descent reader.

use super::SelectorError;
use super::label::{LabelRequirement, Operator};

pub(super) fn parse(text: &str) -> Result<Vec<LabelRequirement>, SelectorError> {
    let mut reader = Reader { rest: text };
    let mut requirements = Vec::new();
    reader.skip_space();
    if reader.rest.is_empty() {
        return Ok(requirements);
    }
    loop {
        requirements.push(reader.requirement()?);
        reader.skip_space();
        if reader.rest.is_empty() {
            return Ok(requirements);
        }
        if !reader.take(",") {
            return Err(reader.wants("',' or the end"));
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn requirement(&mut self) -> Result<LabelRequirement, SelectorError> {
        self.skip_space();
        if self.take("!") {
            let key = self.word("a label key")?;
            return LabelRequirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        let key = self.word("a label key")?;
        self.skip_space();
        if self.rest.is_empty() || self.rest.starts_with(',') {
            return LabelRequirement::new(key, Operator::Exists, Vec::new());
        }
        for (sign, operator) in [
            ("==", Operator::In),
            ("=", Operator::In),
            ("!=", Operator::NotIn),
            (">", Operator::GreaterThan),
            ("<", Operator::LessThan),
        ] {
            if self.take(sign) {
                let value = self.maybe_word();
                return LabelRequirement::new(key, operator, vec![value.to_owned()]);
            }
        }
        let operator = match self.word("'in', 'notin', '=', '==', '!=', '>' or '<'")? {
            "in" => Operator::In,
            "notin" => Operator::NotIn,
            other => {
                return Err(SelectorError::Syntax(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")));
            }
        };
        let values = self.values()?;
        LabelRequirement::new(key, operator, values)
    }

    /// `(a,b,c)`; an empty element is the empty value.
    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        self.skip_space();
        if !self.take("(") {
            return Err(self.wants("'('"));
        }
        let mut values = Vec::new();
        loop {
            let value = self.maybe_word().to_owned();
            if !values.contains(&value) {
                values.push(value);
            }
            self.skip_space();
            if self.take(")") {
                values.sort();
                return Ok(values);
            }
            if !self.take(",") {
                return Err(self.wants("',' or ')'"));
            }
        }
    }

    fn word(&mut self, what: &str) -> Result<&'a str, SelectorError> {
        match self.maybe_word() {
            "" => Err(self.wants(what)),
            word => Ok(word),
        }
    }

    /// The characters up to the next sign or space; may be empty.
    fn maybe_word(&mut self) -> &'a str {
        self.skip_space();
        let end = self.rest.find([' ', '\t', '\r', '\n', ',', '(', ')', '=', '!', '<', '>']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn take(&mut self, sign: &str) -> bool {
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn wants(&self, what: &str) -> SelectorError {
        SelectorError::Syntax(format!("found '{}', expected: {what}", self.rest))
    }
}
