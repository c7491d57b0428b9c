//! Single values, each checked at its position.

use serde::Deserialize;
use toml::{Spanned, Value};

use super::raw::Raw;
use super::source::File;
use crate::load::Kind;
use iotrail_answer::compare::Metric;
use iotrail_answer::table::{self, Column, Table};
use iotrail_base::error::Result;
use iotrail_base::units::Bytes;

impl File<'_> {
    pub(super) fn band(&self, share: &Spanned<f64>) -> Result<f64> {
        let within = *share.get_ref();
        if !(within > 0.0 && within < 1.0) {
            let what = "'equivalent-within' must be above 0 and below 1; 0.05 means 5 %";
            return Err(self.refuse(share.span(), what));
        }
        Ok(within)
    }

    pub(super) fn table(&self, named: Option<&Spanned<String>>) -> Result<String> {
        let usual = match self.kind {
            Kind::Storage => table::STORAGE,
            Kind::Net => table::NET,
            Kind::Program => table::PROGRAM,
        };
        let Some(named) = named else { return Ok(usual.into()) };
        let name = named.get_ref().as_str();
        let Some(table) = Table::named(name) else {
            let all: Vec<&str> = Table::names().collect();
            return Err(self.refuse(named.span(), format!("unknown table '{name}': the tables are {}", all.join(", "))));
        };
        let wrong = match self.kind {
            Kind::Program if name != usual => "program runs have a fixed table: omit 'table'",
            Kind::Storage | Kind::Net if name == table::PROGRAM => {
                "this table is for programs: add kind = \"program\", or use another table"
            }
            Kind::Net if !table.net => "this table is for storage loads: use net or order",
            Kind::Storage if table.net => "this table is for network loads: add kind = \"net\", or use another table",
            _ => return Ok(name.into()),
        };
        Err(self.refuse(named.span(), wrong))
    }

    pub(super) fn column(&self, named: &Spanned<String>) -> Result<String> {
        let name = named.get_ref();
        if Column::named(name).is_none() {
            let all: Vec<&str> = Column::names().collect();
            let what = format!("unknown column '{name}': the columns are {}", all.join(", "));
            return Err(self.refuse(named.span(), what));
        }
        Ok(name.clone())
    }

    /// Rejects settings that do not apply to a network load.
    pub(super) fn of_storage_alone(&self, raw: &Raw) -> Result<()> {
        let spans = [
            ("size", raw.size.as_ref().map(Spanned::span)),
            ("fio", raw.fio.as_ref().map(Spanned::span)),
            ("profile", raw.profile.as_ref().map(Spanned::span)),
        ];
        match spans.into_iter().find_map(|(name, span)| Some((name, span?))) {
            Some((name, at)) if raw.kind != Kind::Storage => {
                Err(self.refuse(at, format!("'{name}' is for storage loads: omit it with this kind")))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn metric(&self, name: &Spanned<String>) -> Result<String> {
        let metric: Metric = name.get_ref().parse().map_err(|e| self.refuse(name.span(), format!("'metrics': {e}")))?;
        Ok(metric.to_string())
    }

    pub(super) fn at_least_1(&self, key: &str, n: &Spanned<u32>) -> Result<u32> {
        match n.get_ref() {
            0 => Err(self.refuse(n.span(), format!("'{key}' must be at least 1"))),
            n => Ok(*n),
        }
    }

    pub(super) fn size(&self, value: &Spanned<Value>) -> Result<Bytes> {
        Bytes::deserialize(value.get_ref().clone())
            .map_err(|e| self.refuse(value.span(), format!("'size': {}", e.message())))
    }
}
