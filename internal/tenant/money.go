package tenant

import (
	"math"
	"strconv"
	"time"
)

// Money is billionths of whatever unit prices are written in: whole numbers, so that sums are exact. A token may cost less than a millionth.
type Money int64

// Unit is one unit of money, and moneyMax more than anybody has: two of them still add up.
const (
	Unit     Money = 1e9
	moneyMax Money = 1 << 61
)

// Units is the amount as a number of units.
func (m Money) Units() float64 { return float64(m) / float64(Unit) }

// String is the amount with as many digits as it takes to tell it from others, four behind the point at least.
func (m Money) String() string {
	text := strconv.FormatFloat(m.Units(), 'f', 4, 64)
	if Money(math.Round(parsed(text)*float64(Unit))) == m {
		return text
	}
	return strconv.FormatFloat(m.Units(), 'f', -1, 64)
}

func parsed(text string) float64 {
	f, _ := strconv.ParseFloat(text, 64) // it was written a moment ago
	return f
}

// MoneyOf is so many units, rounded to the nearest billionth.
func MoneyOf(units float64) Money {
	return Money(min(max(0, math.Round(units*float64(Unit))), float64(moneyMax)))
}

// Spent is what tenants spent on one day, UTC: what is kept over a restart.
type Spent struct {
	Day   string           `json:"day"` // 2026-11-30
	Money map[string]Money `json:"billionths"`
}

// Spent is what tenants spent today, those that have spent nothing left out.
func (b *Book) Spent(now time.Time) Spent {
	s := Spent{Day: now.UTC().Format(time.DateOnly), Money: map[string]Money{}}
	for _, a := range b.order {
		if a.at(now.Unix()); a.spent > 0 {
			s.Money[a.name] = a.spent
		}
	}
	return s
}

// Restore takes back what Spent told, as far as it is of today and of tenants that there are.
func (b *Book) Restore(now time.Time, s Spent) {
	if s.Day != now.UTC().Format(time.DateOnly) {
		return
	}
	for _, t := range b.table.Tenants() {
		if m := min(s.Money[t.Name], moneyMax); m > 0 {
			a := b.account(t.Name)
			a.at(now.Unix())
			a.spent += m
		}
	}
}
