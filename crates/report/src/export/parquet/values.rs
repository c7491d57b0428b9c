//! Buffered values of a row group, by Parquet column.

use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;

use super::Done;
use crate::export::rows::Row;
use crate::export::table::{Field, Kind};
use iotrail_schema::run_record::value_text;

/// Number of strings expanded from runs at a time.
const TEXTS: usize = 1024;

type Group<'a> = parquet::file::writer::SerializedRowGroupWriter<'a, std::fs::File>;
type Chunk<'a> = parquet::file::writer::SerializedColumnWriter<'a>;

pub fn next<'a>(group: &'a mut Group<'_>) -> Done<Chunk<'a>> {
    group.next_column()?.ok_or_else(|| ParquetError::General("the schema has fewer columns".into()))
}

/// The known values of a column, and the rows that have a value.
pub enum Values {
    Integers(Vec<i64>, Vec<i16>),
    Numbers(Vec<f64>, Vec<i16>),
    /// Run-length encoded, because most values repeat the previous one.
    Texts(Vec<(ByteArray, usize)>, Vec<i16>),
    Flags(Vec<bool>, Vec<i16>),
}

impl Values {
    pub fn of(kind: Kind) -> Self {
        match kind {
            Kind::Integer => Values::Integers(vec![], vec![]),
            Kind::Number => Values::Numbers(vec![], vec![]),
            Kind::Text => Values::Texts(vec![], vec![]),
            Kind::Flag => Values::Flags(vec![], vec![]),
        }
    }

    pub fn take(&mut self, field: &Field) {
        let known = match (&mut *self, field) {
            (Values::Integers(values, _), Field::Integer(n)) => push(values, *n),
            (Values::Numbers(values, _), Field::Number(x)) => push(values, *x),
            (Values::Texts(values, _), Field::Text(text)) => match values.last_mut() {
                Some((last, times)) if last.data() == text.as_bytes() => {
                    *times += 1;
                    true
                }
                _ => push(values, (text.as_bytes().to_vec().into(), 1)),
            },
            (Values::Flags(values, _), Field::Flag(yes)) => push(values, *yes),
            _ => false,
        };
        let (Values::Integers(_, there)
        | Values::Numbers(_, there)
        | Values::Texts(_, there)
        | Values::Flags(_, there)) = self;
        there.push(i16::from(known));
    }

    /// Writes all values and clears the buffer.
    pub fn write(&mut self, column: &mut Chunk<'_>) -> Done<()> {
        match self {
            Values::Integers(values, there) => written::<Int64Type>(values, there, column),
            Values::Numbers(values, there) => written::<DoubleType>(values, there, column),
            Values::Texts(values, there) => {
                let mut all = std::mem::take(values).into_iter().flat_map(|(text, n)| std::iter::repeat_n(text, n));
                for there in std::mem::take(there).chunks(TEXTS) {
                    let known = there.iter().filter(|level| **level == 1).count();
                    let values: Vec<ByteArray> = all.by_ref().take(known).collect();
                    column.typed::<ByteArrayType>().write_batch(&values, Some(there), None)?;
                }
                Ok(())
            }
            Values::Flags(values, there) => written::<BoolType>(values, there, column),
        }
    }
}

fn written<T: DataType>(values: &mut Vec<T::T>, there: &mut Vec<i16>, column: &mut Chunk<'_>) -> Done<()> {
    column.typed::<T>().write_batch(&std::mem::take(values), Some(&std::mem::take(there)), None)?;
    Ok(())
}

fn push<T>(values: &mut Vec<T>, value: T) -> bool {
    values.push(value);
    true
}

/// The cells' parameters: a map from name to value per row.
#[derive(Default)]
pub struct Params {
    keys: Vec<ByteArray>,
    values: Vec<ByteArray>,
    /// Definition level: 1 for an entry, 0 for a row without entries.
    there: Vec<i16>,
    /// Repetition level: 0 for the row's first entry, 1 for further entries.
    further: Vec<i16>,
}

impl Params {
    pub fn take(&mut self, row: &Row<'_>) {
        if row.params.is_empty() {
            self.there.push(0);
            self.further.push(0);
        }
        for (i, (name, value)) in row.params.iter().enumerate() {
            self.keys.push(name.as_bytes().to_vec().into());
            self.values.push(value_text(value).into_bytes().into());
            self.there.push(1);
            self.further.push(i16::from(i > 0));
        }
    }

    pub fn write(&mut self, group: &mut Group<'_>) -> Done<()> {
        for values in [&self.keys, &self.values] {
            let mut column = next(group)?;
            column.typed::<ByteArrayType>().write_batch(values, Some(&self.there), Some(&self.further))?;
            column.close()?;
        }
        *self = Params::default();
        Ok(())
    }
}
