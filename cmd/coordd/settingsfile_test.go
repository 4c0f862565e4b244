package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestSettingsAreReadAsTheyAreWritten(t *testing.T) {
	all := flagsOf((&app{}).root())
	text := "# comment\nexec: |\n  exec ./worker.sh\n  two\nhttp: ''\ncapacity: 12\n" +
		"publish-items: true\nttl: &t 20s\nlease: *t\nroute-allow: [127.0.0.0/8, '10.0.0.1']\n" +
		"http-host: a, b\n"
	got, err := parseSettings("f", []byte(text), all)
	must(t, err)
	flags := (&app{}).runCommand().Flags()
	set, err := setFrom("f", got, flags)
	must(t, err)
	for name, want := range map[string]string{"exec": "exec ./worker.sh\ntwo\n", "http": "",
		"capacity": "12", "publish-items": "true", "ttl": "20s", "lease": "20s",
		"route-allow": "[127.0.0.0/8,10.0.0.1]", "http-host": "[a,b]"} {
		f := flags.Lookup(name)
		if f.Value.String() != want || !f.Changed || !set.has(name) {
			t.Errorf("%s is %q (changed %v, from the file %v), want %q", name, f.Value, f.Changed,
				set.has(name), want)
		}
	}
	if i := slices.IndexFunc(set, func(s setting) bool { return s.flag == "capacity" }); i < 0 ||
		set[i].name != "f:6" {
		t.Errorf("capacity is said to come from %+v", set)
	}
}

// FuzzSettings holds that any text is read or refused as bad usage that names the file.
func FuzzSettings(f *testing.F) {
	for _, text := range []string{"ttl: 10s", "a: b", "? [x]\n: y", "ttl: &a [*a]", "*x", "\t",
		"ttl: 1\n---\n", "!!binary x: 1", "<<: {ttl: 1}", "{ttl: 1", "http-host: [[a]]", "\xff"} {
		f.Add(text)
	}
	all := flagsOf((&app{}).root())
	f.Fuzz(func(t *testing.T, text string) {
		settings, err := parseSettings("the-file", []byte(text), all)
		if err == nil {
			_, err = setFrom("the-file", settings, (&app{}).runCommand().Flags())
		}
		if err != nil && (!errors.Is(err, errUsage) || !strings.Contains(err.Error(), "the-file")) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
