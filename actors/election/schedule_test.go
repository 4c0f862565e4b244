package election_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
)

// Behind each time are the beginning of its period and that of the next one.
func TestAScheduleHasTheSamePeriodsOnAllMachines(t *testing.T) {
	const berlin, york, howe = "CRON_TZ=Europe/Berlin ", "CRON_TZ=America/New_York ",
		"CRON_TZ=Australia/Lord_Howe "
	for _, c := range [][4]string{
		{"@every 24h", "2026-11-28T21:00:00Z", "2026-11-28T00:00:00Z", "2026-11-29T00:00:00Z"},
		{"@every 168h", "2026-11-28T21:00:00Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		{"@every 7s", "2026-11-28T21:00:00Z", "2026-11-28T20:59:58Z", "2026-11-28T21:00:05Z"},
		{"15 3 * * *", "2026-11-28T03:14:59Z", "2026-11-27T03:15:00Z", "2026-11-28T03:15:00Z"},
		{"15 3 * * *", "2026-11-28T04:15:00+01:00", "2026-11-28T03:15:00Z", "2026-11-29T03:15:00Z"},
		{"@monthly", "2026-11-28T21:00:00Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"0 0 29 2 *", "2026-11-28T21:00:00Z", "2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"* * * 1 *", "2026-11-28T21:00:00Z", "2026-01-31T23:59:00Z", "2027-01-01T00:00:00Z"},
		// In spring 02:30 does not come: its period begins at 03:30.
		{berlin + "30 2 * * *", "2026-03-29T01:30:00Z", "2026-03-29T01:30:00Z",
			"2026-03-30T00:30:00Z"},
		{berlin + "30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-28T01:30:00Z",
			"2026-03-29T01:30:00Z"},
		{berlin + "10,30 2,3 * * *", "2026-03-29T01:00:00Z", "2026-03-28T02:30:00Z",
			"2026-03-29T01:10:00Z"},
		{berlin + "0,30 2 * * *", "2026-03-29T09:00:00Z", "2026-03-29T01:30:00Z",
			"2026-03-30T00:00:00Z"},
		{berlin + "30 * * * *", "2026-03-29T00:59:00Z", "2026-03-29T00:30:00Z",
			"2026-03-29T01:30:00Z"},
		{howe + "15 2 * * *", "2026-10-03T12:00:00Z", "2026-10-02T15:45:00Z",
			"2026-10-03T15:45:00Z"},
		// In autumn 02:30 and 01:30 come twice.
		{berlin + "30 2 * * *", "2026-10-25T01:45:00Z", "2026-10-25T01:30:00Z",
			"2026-10-26T01:30:00Z"},
		{york + "30 1 * * *", "2026-11-01T05:31:00Z", "2026-11-01T05:30:00Z",
			"2026-11-02T06:30:00Z"},
		{york + "*/30 * * * *", "2026-11-01T05:31:00Z", "2026-11-01T05:30:00Z",
			"2026-11-01T06:00:00Z"},
		{howe + "45 1 * * *", "2026-04-04T14:50:00Z", "2026-04-03T14:45:00Z",
			"2026-04-04T15:15:00Z"},
	} {
		s, err := election.ParseSchedule(c[0])
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, c[1])
		if err != nil {
			t.Fatal(err)
		}
		last, next := s.Last(at).Format(time.RFC3339), s.Next(at).Format(time.RFC3339)
		if last != c[2] || next != c[3] {
			t.Errorf("%s at %s: %s, %s; want %s, %s", c[0], c[1], last, next, c[2], c[3])
		}
	}
	for _, bad := range []string{"", "@every", "@every 0s", "@every -1h", "@every 1.5s", "@every 1d",
		"@reboot", "61 * * * *", "0 0 30 2 *", "* * * *", "0 15 3 * * *", "CRON_TZ=Mars/X 1 1 1 1 *",
		"CRON_TZ=Europe/Berlin", "TZ=", "TZ=Local 1 1 1 1 *",
		"CRON_TZ=UTC TZ=UTC", "CRON_TZ=UTC @every 1h"} {
		if _, err := election.ParseSchedule(bad); !errors.Is(err, election.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
