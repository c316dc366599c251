//! JSON of other programs, read by names: whoever finds something else than was expected says where, as a JSON pointer
//! (RFC 6901).

use super::{NotImported, RUNS_MAX, too_many_runs};
use serde_json::Value;

/// Text that is kept in memory as values, at most: these take up to thirty times as much. fio's buckets of thirty jobs
/// are 3 MiB, and so are the single packets of ten minutes of owping.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// Where the first object of a text begins: programs write lines for people before it.
pub fn first_object(text: &str) -> Option<usize> {
    let blank = text.len() - text.trim_start().len();
    if text[blank..].starts_with('{') {
        return Some(blank);
    }
    text.match_indices('\n').map(|(at, _)| at + 1).find(|at| text[*at..].starts_with('{'))
}

/// All objects of a text, at most [`RUNS_MAX`]; lines for people before, between and behind them are passed over.
///
/// # Errors
/// If it is too long, or has too many; or an object is no JSON: the line in which that begins, and why.
pub fn objects(text: &str) -> Result<Vec<Value>, NotImported> {
    if text.len() > TEXT_BYTES_MAX {
        let most = TEXT_BYTES_MAX >> 20;
        return Err(NotImported(format!(
            "it is larger than {most} MiB: import its runs one by one, and of owping without single packets"
        )));
    }
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(at) = first_object(rest) {
        if found.len() == RUNS_MAX {
            return Err(too_many_runs());
        }
        rest = &rest[at..];
        let mut one = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match one.next() {
            Some(Ok(value)) => found.push(value),
            Some(Err(error)) => {
                let line = text[..text.len() - rest.len()].matches('\n').count() + 1;
                return Err(NotImported(format!("the JSON object that begins in line {line}: {error}")));
            }
            None => break,
        }
        rest = &rest[one.byte_offset()..];
    }
    Ok(found)
}

/// A value, and where it stands.
pub struct At<'a> {
    /// The value.
    pub value: &'a Value,
    pointer: String,
}

impl<'a> At<'a> {
    /// All of it.
    pub fn top(value: &'a Value) -> At<'a> {
        At { value, pointer: String::new() }
    }

    /// What has this name here; `null` is nothing.
    pub fn find(&self, name: &str) -> Option<At<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(At { value, pointer: self.below(name) })
    }

    /// The same where it must be there.
    ///
    /// # Errors
    /// That it is not.
    pub fn get(&self, name: &str) -> Result<At<'a>, String> {
        self.find(name).ok_or_else(|| format!("`{}` was expected, and is not there", self.below(name)))
    }

    /// A number that has this name; none where nothing has it.
    ///
    /// # Errors
    /// If it is something else.
    pub fn find_number(&self, name: &str) -> Result<Option<f64>, String> {
        self.find(name).map(|found| found.number()).transpose()
    }

    /// A number.
    ///
    /// # Errors
    /// If it is something else.
    pub fn number(&self) -> Result<f64, String> {
        self.value.as_f64().ok_or_else(|| self.odd("a number"))
    }

    /// A number that counts something.
    ///
    /// # Errors
    /// If it is something else.
    pub fn count(&self) -> Result<u64, String> {
        self.value.as_u64().ok_or_else(|| self.odd("a whole number, 0 or more,"))
    }

    /// Words.
    ///
    /// # Errors
    /// If it is something else.
    pub fn text(&self) -> Result<&'a str, String> {
        self.value.as_str().ok_or_else(|| self.odd("a string"))
    }

    /// The values of a list.
    ///
    /// # Errors
    /// If it is something else.
    pub fn items(&self) -> Result<Vec<At<'a>>, String> {
        let items = self.value.as_array().ok_or_else(|| self.odd("a list"))?;
        let item = |(number, value): (usize, &'a Value)| {
            let pointer = format!("{}/{number}", self.pointer);
            At { value, pointer }
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// A histogram: numbers as names, each with how often it was seen.
    ///
    /// # Errors
    /// If it is something else.
    pub fn histogram(&self) -> Result<Vec<(f64, u64)>, String> {
        let named = self.numbered()?.into_iter();
        named.map(|(number, found)| Ok((number, found.count()?))).collect()
    }

    /// The values of an object whose names are numbers.
    ///
    /// # Errors
    /// If it is something else.
    pub fn numbered(&self) -> Result<Vec<(f64, At<'a>)>, String> {
        let object = self.value.as_object().ok_or_else(|| self.odd("an object"))?;
        let one = |(name, value): (&'a String, &'a Value)| {
            let pointer = self.below(name);
            match name.parse::<f64>().ok().filter(|number| number.is_finite()) {
                Some(number) => Ok((number, At { value, pointer })),
                None => Err(format!("at `{pointer}` a number was expected as the name")),
            }
        };
        object.iter().map(one).collect()
    }

    /// That something else was expected here.
    pub fn odd(&self, wanted: &str) -> String {
        let is = match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "another number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        format!("at `{}` {wanted} was expected, and there is {is}", self.pointer)
    }

    fn below(&self, name: &str) -> String {
        format!("{}/{}", self.pointer, name.replace('~', "~0").replace('/', "~1").escape_debug())
    }
}

/// So many values at most, 2 or more, evenly among counted ones by their size, the smallest and the largest with them;
/// and how many there were.
pub fn spread(mut counted: Vec<(f64, u64)>, most: usize) -> (Vec<f64>, f64) {
    counted.retain(|(_, count)| *count > 0);
    counted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: u128 = counted.iter().map(|(_, count)| u128::from(*count)).sum();
    let kept = total.min(most.max(2) as u128);
    let mut values = Vec::new();
    // The value at hand, and how many are before it.
    let (mut at, mut before) = (0, 0);
    for step in 0..kept {
        let rank = if kept > 1 { step * (total - 1) / (kept - 1) } else { 0 };
        while rank >= before + u128::from(counted[at].1) {
            before += u128::from(counted[at].1);
            at += 1;
        }
        values.push(counted[at].0);
    }
    (values, total as f64)
}
