//! One configuration key: its name, kind, default, bounds and documentation, and how its text is parsed.
//!
//! Keys are built as constants. This module knows no specific key and no layer.

use super::error::{ConfigError, ConfigScope};
use super::value::Value;

/// Kafka's type of a key, as DescribeConfigs reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigKind {
    /// `true` or `false`.
    Boolean,
    /// Any text.
    String,
    /// 32 bits, signed.
    Int,
    /// 16 bits, signed.
    Short,
    /// 64 bits, signed.
    Long,
    /// A floating-point number.
    Double,
    /// Texts separated by commas.
    List,
    /// The name of a class.
    Class,
    /// A text that is never shown.
    Password,
}

impl ConfigKind {
    /// Returns Kafka's name of the type, as in `ConfigDef.Type`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Int => "int",
            Self::Short => "short",
            Self::Long => "long",
            Self::Double => "double",
            Self::List => "list",
            Self::Class => "class",
            Self::Password => "password",
        }
    }

    /// Returns the number of the type in a DescribeConfigs response.
    pub const fn code(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::String => 2,
            Self::Int => 3,
            Self::Short => 4,
            Self::Long => 5,
            Self::Double => 6,
            Self::List => 7,
            Self::Class => 8,
            Self::Password => 9,
        }
    }
}

/// The unit of a numeric key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Not a quantity.
    None,
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Minutes.
    Minutes,
    /// Hours.
    Hours,
    /// A count of things, named in the text.
    Count(&'static str),
}

impl Unit {
    /// Returns the unit in words, empty for none.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Bytes => "bytes",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Minutes => "min",
            Self::Hours => "h",
            Self::Count(what) => what,
        }
    }
}

/// The legal values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bounds {
    /// Every value of the kind.
    Any,
    /// At least this number.
    AtLeast(i64),
    /// From the first number to the second, both included.
    Between(i64, i64),
    /// -1, or from the first number to the second, both included.
    MinusOneOr(i64, i64),
    /// A double from the first number to the second, both included.
    Share(f64, f64),
    /// One of these texts. For a list: only these texts.
    OneOf(&'static [&'static str]),
    /// Pairs `PARTITION:NODE`, or `*` alone: Kafka's lists of throttled replicas.
    Replicas,
}

/// Whether a key has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// It has the effect that its documentation states.
    Implemented,
    /// It is accepted, stored and shown for compatibility with clients, and has no effect yet.
    Accepted,
}

/// A broker key that holds the default of a topic or group key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synonym {
    /// The broker key.
    pub name: &'static str,
    /// The broker key's value times this factor is the topic key's value. 1 for all but hours and minutes.
    pub factor: i64,
}

/// One configuration key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfigKey {
    /// Its name. Where Kafka has the setting, it is Kafka's name.
    pub name: &'static str,
    /// Its type.
    pub kind: ConfigKind,
    /// The value when nothing is set. `None` is null.
    pub default: Option<&'static str>,
    /// Its unit.
    pub unit: Unit,
    /// The legal values.
    pub bounds: Bounds,
    /// Values that Kafka accepts and tailrace refuses for now.
    pub not_yet: &'static [&'static str],
    /// Its documentation, in one paragraph.
    pub documentation: &'static str,
    /// True if it can change while the process runs. Always true for topics.
    pub dynamic: bool,
    /// True if its value is never shown.
    pub sensitive: bool,
    /// Whether it has an effect.
    pub applies: Applies,
    /// For a topic or group key: the broker keys that hold its default, the strongest first.
    pub synonyms: &'static [Synonym],
    /// Other names for the same setting in the same scope.
    pub aliases: &'static [&'static str],
    /// For a broker key: the topic or group key whose default it holds.
    pub default_of: Option<&'static str>,
    /// The scope of the key in `default_of`.
    pub default_scope: ConfigScope,
    /// True for keys that only tests and tools use. They are shown only while set.
    pub internal: bool,
    /// True if no Kafka client may set it, whether or not it changes while the process runs.
    pub read_only: bool,
}

/// Builders for use in constants.
impl ConfigKey {
    pub(crate) const fn new(name: &'static str, kind: ConfigKind) -> Self {
        Self {
            name,
            kind,
            default: None,
            unit: Unit::None,
            bounds: Bounds::Any,
            not_yet: &[],
            documentation: "",
            dynamic: false,
            sensitive: matches!(kind, ConfigKind::Password),
            applies: Applies::Implemented,
            synonyms: &[],
            aliases: &[],
            default_of: None,
            default_scope: ConfigScope::Topic,
            internal: false,
            read_only: false,
        }
    }

    pub(crate) const fn default(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    pub(crate) const fn unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    pub(crate) const fn bytes(self) -> Self {
        self.unit(Unit::Bytes)
    }

    pub(crate) const fn ms(self) -> Self {
        self.unit(Unit::Milliseconds)
    }

    pub(crate) const fn count(self, what: &'static str) -> Self {
        self.unit(Unit::Count(what))
    }

    pub(crate) const fn bounds(self, bounds: Bounds) -> Self {
        Self { bounds, ..self }
    }

    pub(crate) const fn at_least(self, min: i64) -> Self {
        self.bounds(Bounds::AtLeast(min))
    }

    pub(crate) const fn between(self, min: i64, max: i64) -> Self {
        self.bounds(Bounds::Between(min, max))
    }

    pub(crate) const fn one_of(self, values: &'static [&'static str]) -> Self {
        self.bounds(Bounds::OneOf(values))
    }

    pub(crate) const fn not_yet(self, not_yet: &'static [&'static str]) -> Self {
        Self { not_yet, ..self }
    }

    pub(crate) const fn documented(self, documentation: &'static str) -> Self {
        Self { documentation, ..self }
    }

    pub(crate) const fn dynamic(self) -> Self {
        Self { dynamic: true, ..self }
    }

    pub(crate) const fn accepted(self) -> Self {
        Self { applies: Applies::Accepted, ..self }
    }

    pub(crate) const fn synonyms(self, synonyms: &'static [Synonym]) -> Self {
        Self { synonyms, ..self }
    }

    pub(crate) const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    pub(crate) const fn internal(self) -> Self {
        Self { internal: true, ..self }
    }

    pub(crate) const fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }
}

impl ConfigKey {
    /// Returns the documentation as it is shown, including whether the key has an effect.
    pub fn documentation_text(&self) -> String {
        let mut text = match self.default_of {
            Some(key) => format!("Default of `{key}` for {}s that do not set it. ", self.default_scope),
            None => String::new(),
        };
        text.push_str(self.documentation.trim());
        if self.applies == Applies::Accepted {
            text.push_str(" Accepted for compatibility; it has no effect yet.");
        }
        text
    }

    /// Returns the environment variable that sets this broker key: `TAILRACE_`, then the key in capitals with
    /// `_` for `.`. A leading `tailrace.` is omitted.
    pub fn environment_name(&self) -> String {
        environment_name(self.name)
    }

    /// Returns the default, parsed.
    pub fn default_value(&self) -> Value {
        // A test parses every default, so one that does not parse is a bug in the table.
        self.default.map_or(Value::Null, |text| self.parse(text).expect("defaults are legal"))
    }

    /// Parses a value and checks its bounds.
    ///
    /// # Errors
    /// The value has the wrong type, is out of bounds, or is not supported yet.
    pub fn parse(&self, text: &str) -> Result<Value, ConfigError> {
        let value = self.read(text.trim()).map_err(|reason| self.invalid(text, reason))?;
        self.check_supported(text, &value)?;
        self.check_bounds(&value).map_err(|reason| self.invalid(text, reason))?;
        Ok(value)
    }

    pub(crate) fn invalid(&self, value: &str, reason: String) -> ConfigError {
        let value = if self.sensitive { "(hidden)" } else { value };
        ConfigError::Invalid { key: self.name, value: value.to_owned(), reason }
    }

    fn read(&self, text: &str) -> Result<Value, String> {
        let whole = |min: i64, max: i64| {
            text.parse()
                .ok()
                .filter(|number| (min..=max).contains(number))
                .map(Value::Number)
                .ok_or_else(|| format!("Not a number of type {}", self.kind.name().to_uppercase()))
        };
        match self.kind {
            ConfigKind::Boolean if text.eq_ignore_ascii_case("true") => Ok(Value::Boolean(true)),
            ConfigKind::Boolean if text.eq_ignore_ascii_case("false") => Ok(Value::Boolean(false)),
            ConfigKind::Boolean => Err("Expected value to be either true or false".to_owned()),
            ConfigKind::Short => whole(i16::MIN.into(), i16::MAX.into()),
            ConfigKind::Int => whole(i32::MIN.into(), i32::MAX.into()),
            ConfigKind::Long => whole(i64::MIN, i64::MAX),
            ConfigKind::Double => text
                .parse()
                .ok()
                .filter(|number: &f64| number.is_finite())
                .map(Value::Double)
                .ok_or_else(|| "Not a number of type DOUBLE".to_owned()),
            ConfigKind::String | ConfigKind::Class | ConfigKind::Password => Ok(Value::Text(text.to_owned())),
            ConfigKind::List if text.is_empty() => Ok(Value::List(Vec::new())),
            ConfigKind::List => Ok(Value::List(text.split(',').map(|part| part.trim().to_owned()).collect())),
        }
    }

    fn check_supported(&self, text: &str, value: &Value) -> Result<(), ConfigError> {
        let parts = match value {
            Value::List(parts) => parts.clone(),
            other => vec![other.to_string()],
        };
        match parts.into_iter().find(|part| self.not_yet.contains(&part.as_str())) {
            None => Ok(()),
            Some(refused) => Err(ConfigError::NotSupported {
                key: self.name,
                value: text.to_owned(),
                refused,
                instead: self.default.unwrap_or_default(),
            }),
        }
    }

    fn check_bounds(&self, value: &Value) -> Result<(), String> {
        match (self.bounds, value) {
            (Bounds::Any, _) => Ok(()),
            (Bounds::MinusOneOr(..), Value::Number(-1)) => Ok(()),
            (Bounds::MinusOneOr(min, max), Value::Number(number)) => within(*number, min, max)
                .map_err(|_| format!("Value must be between {min} and {max} or equal to -1")),
            (Bounds::AtLeast(min), Value::Number(number)) => within(*number, min, i64::MAX),
            (Bounds::Between(min, max), Value::Number(number)) => within(*number, min, max),
            (Bounds::Share(min, _), Value::Double(number)) if *number < min => {
                Err(format!("Value must be at least {min}"))
            }
            (Bounds::Share(_, max), Value::Double(number)) if *number > max => {
                Err(format!("Value must be no more than {max}"))
            }
            (Bounds::Share(..), Value::Double(_)) => Ok(()),
            (Bounds::OneOf(allowed), Value::Text(text)) => one_of(allowed, text),
            (Bounds::OneOf(allowed), Value::List(parts)) => {
                parts.iter().try_for_each(|part| one_of(allowed, part))
            }
            (Bounds::Replicas, Value::List(parts)) => throttled_replicas(parts),
            (bounds, value) => Err(format!("{value} cannot be compared with {bounds:?}")),
        }
    }
}

pub(crate) fn environment_name(key: &str) -> String {
    let short = key.strip_prefix("tailrace.").unwrap_or(key);
    format!("TAILRACE_{}", short.replace('.', "_").to_uppercase())
}

fn within(number: i64, min: i64, max: i64) -> Result<(), String> {
    if number < min {
        return Err(format!("Value must be at least {min}"));
    }
    if number > max {
        return Err(format!("Value must be no more than {max}"));
    }
    Ok(())
}

fn one_of(allowed: &[&str], text: &str) -> Result<(), String> {
    if allowed.contains(&text) {
        return Ok(());
    }
    Err(format!("String must be one of: {}", allowed.join(", ")))
}

fn throttled_replicas(parts: &[String]) -> Result<(), String> {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let pair = |part: &String| part.split_once(':').is_some_and(|(p, n)| number(p) && number(n));
    let all = parts.len() == 1 && parts[0] == "*";
    if parts.is_empty() || all || parts.iter().all(pair) {
        return Ok(());
    }
    Err("must be * or a list of PARTITION:NODE, such as 0:1,1:2".to_owned())
}
