package calendar

// Dates of the Gregorian calendar, as days since 1970-01-01. Package time has them,
// too, and would bring the loading of zones with it.

const secondsOfDay = 86_400

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }

// daysOf is the day of a date.
// https://howardhinnant.github.io/date_algorithms.html#days_from_civil
func daysOf(year, month, day int) int64 {
	if month <= 2 {
		year--
	}
	era := floorDiv(int64(year), 400)
	yearOfEra := int64(year) - era*400
	dayOfYear := int64((153*((month+9)%12)+2)/5 + day - 1) // from the 1st of March
	return era*146_097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719_468
}

// dateOf is the date of a day.
// https://howardhinnant.github.io/date_algorithms.html#civil_from_days
func dateOf(days int64) (year, month, day int) {
	days += 719_468
	era := floorDiv(days, 146_097)
	dayOfEra := days - era*146_097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36_524 - dayOfEra/146_096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	m := (5*dayOfYear + 2) / 153
	year, month, day = int(yearOfEra+era*400), int(m+2)%12+1, int(dayOfYear-(153*m+2)/5+1)
	if month <= 2 {
		year++
	}
	return year, month, day
}

// daysIn is how many days a month has.
func daysIn(year, month int) int {
	next := year*12 + month // months since the year 0, of the next one
	return int(daysOf(next/12, next%12+1, 1) - daysOf(year, month, 1))
}

// weekdayOf is the weekday of a day: 0 is Sunday.
func weekdayOf(days int64) int64 { return floorMod(days+4, 7) }
