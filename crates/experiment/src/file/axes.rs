//! The axes: parameters, variants and arms.

use std::ops::Range;

use toml::{Spanned, Value};

use super::options::{Settled, settled};
use super::raw::Raw;
use super::source::File;
use super::stated::{Axis, Point};
use super::values::{Options, RawMatrix, RawOptions, overlay};
use iotrail_base::error::{Error, Result};
use iotrail_schema::run_record::{ARM, CONTROL};

impl File<'_> {
    /// The matrix axes in file order, with each name's position.
    pub(super) fn matrix(&self, raw: &RawMatrix) -> Result<Vec<(Axis, Range<usize>)>> {
        let mut axes = Vec::new();
        for (key, values) in raw {
            if values.get_ref().is_empty() {
                return Err(self.refuse(values.span(), format!("'{}' has no values", key.get_ref())));
            }
            let mut points: Vec<Point> = Vec::new();
            for value in values.get_ref() {
                self.option(key, value)?;
                if points.iter().any(|p| p.value == *value.get_ref()) {
                    return Err(self.refuse(value.span(), format!("{} is listed twice", value.get_ref())));
                }
                let options = [(key.get_ref().clone(), value.get_ref().clone())].into_iter().collect();
                points.push(Point { value: value.get_ref().clone(), options, at: self.place(value.span()) });
            }
            axes.push((Axis { name: key.get_ref().clone(), points }, key.span()));
        }
        axes.sort_by_key(|(_, at)| at.start);
        Ok(axes)
    }

    /// `[[arm]]` or `[[variant]]`: named sets of options, which must still differ after defaults are filled in.
    pub(super) fn named(
        &self,
        what: &str,
        axis: &str,
        raw: &[Spanned<RawOptions>],
        load: &Options,
        matrix: &[(Axis, Range<usize>)],
    ) -> Result<Option<Axis>> {
        let mut points: Vec<Point> = Vec::new();
        for entry in raw {
            let fields = entry.get_ref();
            let Some(name) = fields.get("name") else {
                return Err(self.refuse(entry.span(), format!("this [[{what}]] has no name")));
            };
            if name.get_ref().as_str().is_none_or(str::is_empty) {
                return Err(self.refuse(name.span(), "a name must be a non-empty string"));
            }
            if points.iter().any(|p| p.value == *name.get_ref()) {
                return Err(self.refuse(name.span(), format!("two entries of [[{what}]] are named {}", name.get_ref())));
            }
            for key in fields.keys() {
                if matrix.iter().any(|(a, _)| a.name == *key.get_ref()) {
                    return Err(self.refuse(
                        key.span(),
                        format!("'{}' is set by a [[{what}]] and varied under [matrix]", key.get_ref()),
                    ));
                }
            }
            let options = self.options(fields, &["name"])?;
            // The plan reports incompatible options with the reason.
            let this = self.settled_over(load, &options);
            let same = |p: &&Point| this.is_some() && self.settled_over(load, &p.options) == this;
            if let Some(twin) = points.iter().find(same) {
                return Err(self.refuse(
                    entry.span(),
                    format!(
                        "[[{what}]] {} does not differ from {}: all options are the same",
                        name.get_ref(),
                        twin.value
                    ),
                ));
            }
            points.push(Point { value: name.get_ref().clone(), options, at: self.place(entry.span()) });
        }
        Ok((!points.is_empty()).then(|| Axis { name: axis.into(), points }))
    }

    /// Moves the arm axis to the end.
    pub(super) fn with_arms(
        &self,
        raw: &Raw,
        matrix: Vec<(Axis, Range<usize>)>,
        variants: Option<Axis>,
        load: &Options,
    ) -> Result<Vec<Axis>> {
        let named_arms = self.named("arm", ARM, &raw.arm, load, &matrix)?;
        if let Some(arms) = &named_arms {
            for entry in &raw.arm {
                for key in entry.get_ref().keys().filter(|k| k.get_ref() != "name") {
                    let set = |p: &Point| p.options.contains_key(key.get_ref());
                    if variants.as_ref().is_some_and(|v| v.points.iter().any(set)) {
                        return Err(self.refuse(
                            key.span(),
                            format!("'{}' is set by an [[arm]] and by a [[variant]]", key.get_ref()),
                        ));
                    }
                }
            }
            if arms.points.len() == 1 {
                return Err(self.refuse(raw.arm[0].span(), "a single [[arm]] cannot be compared: add another"));
            }
        }
        let mut axes: Vec<Axis> = variants.into_iter().chain(matrix.into_iter().map(|(a, _)| a)).collect();
        let arms = match (&raw.compare, named_arms) {
            (Some(compare), None) => {
                let Some(i) = axes.iter().position(|a| a.name == *compare.get_ref()) else {
                    return Err(self.refuse(
                        compare.span(),
                        format!("'compare' must be 'variant' or a parameter of [matrix], not '{}'", compare.get_ref()),
                    ));
                };
                if axes[i].points.len() == 1 {
                    return Err(self.refuse(
                        compare.span(),
                        format!("'{}' has only one value, so there are no arms to compare", compare.get_ref()),
                    ));
                }
                let axis = axes.remove(i);
                let named = |p: Point| Point { value: Value::String(arm_name(&p.value)), ..p };
                Axis { name: ARM.into(), points: axis.points.into_iter().map(named).collect() }
            }
            (None, Some(arms)) => arms,
            (Some(compare), Some(_)) => {
                return Err(self.refuse(compare.span(), "'compare' and [[arm]] both define the arms: keep only one"));
            }
            (None, None) => {
                return Err(self.refuse(
                    raw.name.span(),
                    "no arms to compare: add at least two [[arm]] tables, or set 'compare' to the name of a parameter",
                ));
            }
        };
        if let Some(point) = arms.points.iter().find(|p| p.value.as_str() == Some(CONTROL)) {
            let what = format!("{}: '{CONTROL}' is reserved for the repeated first arm: choose another name", point.at);
            return Err(Error::input(what, self.kind.remedy()));
        }
        axes.push(arms);
        Ok(axes)
    }

    /// Options of load and host: `base` overridden by `over`. `None` if they are incompatible.
    fn settled_over(&self, base: &Options, over: &Options) -> Option<Settled> {
        let mut merged = base.clone();
        overlay(&mut merged, over);
        settled(self.kind, merged).ok()
    }
}

fn arm_name(value: &Value) -> String {
    match value {
        Value::String(s) if s.is_empty() => "none".into(),
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}
