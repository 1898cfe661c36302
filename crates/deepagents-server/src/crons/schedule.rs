//! Cron schedules: minute, hour, day, month and day of the week. Seconds may follow, as in the reference
//! implementation.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Unit};

/// Why a schedule is invalid.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ScheduleError {
    #[error(
        "`{0}` is not a schedule: give minute, hour, day, month and day of the week, such as `0 9 * * 1-5`, optionally followed by seconds"
    )]
    Fields(String),
    #[error("`{field}` is not a valid {name}: use {low} to {high}, or lists, ranges and steps of them")]
    Field { field: String, name: &'static str, low: u32, high: u32 },
    #[error("`{0}` never occurs")]
    Never(String),
    #[error("`{0}` is not a time zone")]
    Zone(String),
}

/// A parsed schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    /// Whether it includes the last day of each month.
    last_day: bool,
    months: u64,
    weekdays: u64,
    /// Whether both days and weekdays are restricted. Then a date matches if either does.
    either: bool,
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The bits of all hours.
const EVERY_HOUR: u64 = (1 << 24) - 1;

struct Range {
    name: &'static str,
    low: u32,
    high: u32,
    words: &'static [&'static str],
}

impl Schedule {
    pub(crate) fn read(text: &str) -> Result<Self, ScheduleError> {
        let written = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = written.split_whitespace().collect();
        let (minutes, hours, days, months, weekdays, seconds) = match fields.as_slice() {
            [minutes, hours, days, months, weekdays] => (minutes, hours, days, months, weekdays, "0"),
            [minutes, hours, days, months, weekdays, seconds] => (minutes, hours, days, months, weekdays, *seconds),
            _ => return Err(ScheduleError::Fields(text.to_owned())),
        };
        let range = |name, low, high, words| Range { name, low, high, words };
        let (last, numbers): (Vec<&str>, Vec<&str>) = days.split(',').partition(|part| part.eq_ignore_ascii_case("l"));
        let day_bits = match numbers.as_slice() {
            [] => 0,
            numbers => range("day", 1, 31, &[]).read(&numbers.join(","))?,
        };
        let weekday_bits = range("day of the week", 0, 7, &WEEKDAYS).read(weekdays)?;
        let schedule = Self {
            seconds: range("second", 0, 59, &[]).read(seconds)?,
            minutes: range("minute", 0, 59, &[]).read(minutes)?,
            hours: range("hour", 0, 23, &[]).read(hours)?,
            days: day_bits,
            last_day: !last.is_empty(),
            months: range("month", 1, 12, &MONTHS).read(months)?,
            // Sunday is both 0 and 7.
            weekdays: (weekday_bits | (weekday_bits >> 7)) & 0x7f,
            either: !days.starts_with(['*', '?']) && !weekdays.starts_with(['*', '?']),
        };
        match schedule.after(Timestamp::UNIX_EPOCH, &TimeZone::UTC) {
            Some(_) => Ok(schedule),
            None => Err(ScheduleError::Never(text.to_owned())),
        }
    }

    /// Returns the first match after a time, or `None` if there is none within eight years, which contain every date of
    /// the calendar.
    pub(crate) fn after(&self, time: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if self.hours == EVERY_HOUR {
            return self.after_in_any_hour(time, zone);
        }
        let mut local = zone.to_datetime(time);
        loop {
            local = self.after_local(local)?;
            let found = zone.to_ambiguous_timestamp(local).compatible().ok()?;
            // An hour repeated by a clock change matches once.
            if found > time {
                return Some(found);
            }
        }
    }

    /// [`after`](Self::after) for a schedule that matches every hour. It runs on through clock changes, so it matches
    /// in both occurrences of a repeated hour.
    fn after_in_any_hour(&self, time: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let (mut offset, mut since) = (zone.to_offset(time), time);
        let mut local = offset.to_datetime(time);
        loop {
            let found = offset.to_timestamp(self.after_local(local)?).ok()?;
            let Some(change) = zone.following(since).next().filter(|change| change.timestamp() <= found) else {
                return Some(found);
            };
            (offset, since) = (change.offset(), change.timestamp());
            local = offset.to_datetime(since).checked_sub(1.second()).ok()?;
        }
    }

    /// Returns the first match after a local time, ignoring clock changes.
    fn after_local(&self, time: DateTime) -> Option<DateTime> {
        let second = jiff::civil::DateTimeRound::new().smallest(Unit::Second).mode(jiff::RoundMode::Trunc);
        let mut at = time.round(second).ok()?.checked_add(1.second()).ok()?;
        let limit = at.checked_add(8.years()).ok()?;
        while at < limit {
            if !self.has_day(at) {
                at = at.date().tomorrow().ok()?.to_datetime(jiff::civil::Time::midnight());
                continue;
            }
            if !has(self.hours, at.hour()) {
                at = at.checked_add(1.hour()).ok()?.with().minute(0).second(0).build().ok()?;
                continue;
            }
            if !has(self.minutes, at.minute()) {
                at = at.checked_add(1.minute()).ok()?.with().second(0).build().ok()?;
                continue;
            }
            if has(self.seconds, at.second()) {
                return Some(at);
            }
            at = at.checked_add(1.second()).ok()?;
        }
        None
    }

    fn has_day(&self, at: DateTime) -> bool {
        let day = has(self.days, at.day()) || (self.last_day && at.day() == at.date().days_in_month());
        let weekday = has(self.weekdays, at.weekday().to_sunday_zero_offset());
        has(self.months, at.month()) && if self.either { day || weekday } else { day && weekday }
    }
}

fn has(bits: u64, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|number| bits & (1 << number) != 0)
}

impl Range {
    fn read(&self, field: &str) -> Result<u64, ScheduleError> {
        let bits = field.split(',').try_fold(0, |bits, part| Some(bits | self.part(part)?));
        bits.ok_or_else(|| ScheduleError::Field {
            field: field.to_owned(),
            name: self.name,
            low: self.low,
            high: self.high,
        })
    }

    /// Parses one number, a range, or `*`, with an optional step.
    fn part(&self, part: &str) -> Option<u64> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse().ok().filter(|step: &usize| *step > 0)?)),
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            // As in Quartz, `?` leaves one of the two day fields open.
            _ if range == "*" || (range == "?" && self.name.starts_with("day")) => (self.low, self.high),
            Some((from, to)) => (self.number(from)?, self.number(to)?),
            None => {
                let from = self.number(range)?;
                (from, if step.is_some() { self.high } else { from })
            }
        };
        // A range that ends before it begins wraps around: 22-2 is 22, 23, 0, 1 and 2.
        let (end, over) = if from <= to { (to, self.low) } else { (self.high, to + 1) };
        let numbers = (from..=end).chain(self.low..over);
        Some(numbers.step_by(step.unwrap_or(1)).fold(0, |bits, number| bits | (1 << number)))
    }

    fn number(&self, text: &str) -> Option<u32> {
        let word = self.words.iter().position(|word| word.eq_ignore_ascii_case(text));
        let number = match word {
            Some(at) => u32::try_from(at).ok()? + self.low,
            None => text.parse().ok()?,
        };
        (self.low..=self.high).contains(&number).then_some(number)
    }
}

/// Returns a time zone by name, UTC by default.
pub(crate) fn zone(name: Option<&str>) -> Result<TimeZone, ScheduleError> {
    match name {
        None | Some("UTC" | "Etc/UTC") => Ok(TimeZone::UTC),
        Some(name) => TimeZone::get(name).map_err(|_| ScheduleError::Zone(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str) -> String {
        let schedule = Schedule::read(schedule).unwrap();
        schedule.after(after.parse().unwrap(), &TimeZone::UTC).unwrap().to_string()
    }

    #[test]
    fn the_next_run_is_the_first_time_matching_every_field() {
        let now = "2026-11-22T22:40:30Z";
        assert_eq!(next("* * * * *", now), "2026-11-22T22:41:00Z");
        assert_eq!(next("0 5 1 1 *", now), "2027-01-01T05:00:00Z");
        assert_eq!(next("*/15 9-17 * * mon-fri", now), "2026-11-23T09:00:00Z");
        assert_eq!(next("30 3 29 2 *", now), "2028-02-29T03:30:00Z");
        assert_eq!(next("0 0 13 * 5", now), "2026-11-27T00:00:00Z", "a day or a day of the week");
        assert_eq!(next("0 0 * * 7", now), "2026-11-29T00:00:00Z");
        assert_eq!(next("0 23-1 * * *", "2026-11-22T23:30:00Z"), "2026-11-23T00:00:00Z", "a range over the end");
        assert_eq!(next("0 0 L 2 *", now), "2027-02-28T00:00:00Z", "the last day of a month");
        assert_eq!(next("0 0 1,L 2 *", "2027-02-28T00:00:00Z"), "2028-02-01T00:00:00Z");
        assert_eq!(next("0 0 13 * ?", now), "2026-12-13T00:00:00Z", "any day of the week");
        assert_eq!(next("0 0 ? * 5", now), "2026-11-27T00:00:00Z", "any day");
        assert_eq!(next("@hourly", now), "2026-11-22T23:00:00Z");
        assert_eq!(next("* * * * * *", now), "2026-11-22T22:40:31Z", "seconds stand behind the others");
        assert_eq!(next("0 12 * * * 30", now), "2026-11-23T12:00:30Z");
        assert_eq!(next("40 22 * * * */20", now), "2026-11-22T22:40:40Z");
        assert_eq!(next("0 12 * * 1 10-20/5", now), "2026-11-23T12:00:10Z");
        assert_eq!(next("41 22 * * *", "2026-11-22T22:41:00Z"), "2026-11-23T22:41:00Z");
    }

    #[test]
    fn hourly_schedules_have_no_gap_at_clock_changes_and_fixed_hours_fire_once() {
        let berlin = zone(Some("Europe/Berlin")).unwrap();
        let times = |schedule: &str, after: &str| {
            let (schedule, mut at) = (Schedule::read(schedule).unwrap(), after.parse().unwrap());
            let next = || {
                at = schedule.after(at, &berlin)?;
                Some(at.strftime("%dT%H:%M").to_string())
            };
            std::iter::from_fn(next).take(4).collect::<Vec<_>>()
        };
        // In autumn, the hour from two to three occurs twice.
        let autumn = "2026-10-24T23:50:00Z";
        assert_eq!(times("*/30 * * * *", autumn), ["25T00:00", "25T00:30", "25T01:00", "25T01:30"]);
        assert_eq!(times("0 * * * *", autumn), ["25T00:00", "25T01:00", "25T02:00", "25T03:00"]);
        assert_eq!(times("30 2 * * *", autumn), ["25T00:30", "26T01:30", "27T01:30", "28T01:30"]);
        assert_eq!(times("0 * * * 1", autumn), ["25T23:00", "26T00:00", "26T01:00", "26T02:00"]);
        // In spring it is missing.
        let spring = "2026-03-29T00:10:00Z";
        assert_eq!(times("*/30 * * * *", spring), ["29T00:30", "29T01:00", "29T01:30", "29T02:00"]);
        assert_eq!(times("30 2 * * *", spring), ["29T01:30", "30T00:30", "31T00:30", "01T00:30"]);
    }

    #[test]
    fn an_invalid_schedule_is_rejected() {
        for bad in [
            "whenever",
            "",
            "* * * *",
            "? * * * *",
            "60 * * * *",
            "* * 0 * *",
            "5-60 * * * *",
            "*/0 * * * *",
            "* * * foo *",
            "* * * * * 60",
            "* * * * * ?",
            "* * * * * * *",
        ] {
            assert!(Schedule::read(bad).is_err(), "{bad}");
        }
        assert_eq!(Schedule::read("0 0 31 2 *"), Err(ScheduleError::Never("0 0 31 2 *".to_owned())));
        assert!(zone(Some("Nowhere/None")).is_err());
    }
}
