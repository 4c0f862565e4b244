package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// command returns a command of a fresh tree, given nothing, and the app of the tree. Its
// environment has one variable.
func commandOf(t *testing.T, path, name, value string) (*app, *cobra.Command) {
	t.Helper()
	a := &app{surroundings: surroundings{env: func(asked string) (string, bool) {
		return value, asked == name
	}}}
	cmd, _, err := a.root().Find(strings.Fields(path)[1:])
	must(t, err)
	must(t, cmd.ParseFlags(nil))
	return a, cmd
}

// settingsFile writes a settings file.
func settingsFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "the-file")
	must(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// valueFor is a value that a flag does not have yet.
func valueFor(f *pflag.Flag) string {
	for _, v := range []string{"true", "7", "7s", "restart", "none"} {
		if was := f.DefValue; v != was && f.Value.Set(v) == nil {
			return v
		}
	}
	return "x"
}

// What the help says of every flag: it can be a variable or in a settings file, unless it says what
// the command does, and then it can be neither.
func TestEveryFlagIsASettingUnlessItIsForTheCommandLineOnly(t *testing.T) {
	seen := 0
	allCommands((&app{}).root(), func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Name == "version" || f.Name == "config" {
				return
			}
			seen++
			name, value := c.CommandPath()+" --"+f.Name, valueFor(f)
			a, cmd := commandOf(t, c.CommandPath(), envName(f.Name), value)
			must(t, a.settings(cmd))
			if got := cmd.Flags().Changed(f.Name); got != isSetting(f) {
				t.Errorf("%s: a setting: %v, and the variable is taken: %v", name, isSetting(f),
					got)
			}
			a, cmd = commandOf(t, c.CommandPath(), "", "")
			a.configPath = settingsFile(t, f.Name+": "+value)
			err := a.settings(cmd)
			if got := cmd.Flags().Changed(f.Name); err == nil && got != isSetting(f) ||
				err != nil && isSetting(f) {
				t.Errorf("%s: a setting: %v, and the file is taken: %v (%v)", name, isSetting(f),
					got, err)
			}
			if isSetting(f) && slices.Contains(forCommands, envName(f.Name)) {
				t.Errorf("%s is a setting, and its variable is for commands", name)
			}
		})
	})
	if seen < 100 {
		t.Errorf("%d flags", seen)
	}
}

func TestSettingsAreReadAsTheyAreWritten(t *testing.T) {
	a, cmd := commandOf(t, "coordd run", "COORDD_ZONE", "of-a-variable")
	must(t, cmd.ParseFlags([]string{"--id", "of-the-line"}))
	a.configPath = settingsFile(t, "# comment\nexec: |\n  exec ./worker.sh\n  two\nhttp: ''\n"+
		"capacity: 0100\nhold-items: true\nttl: 20s\ntags: [a, 'b']\nhttp-host: a,b\n"+
		"id: x\nzone: x\nmembers: 5\n")
	must(t, a.settings(cmd))
	for name, want := range map[string]string{"exec": "exec ./worker.sh\ntwo", "http": "",
		"capacity": "100", "hold-items": "true", "ttl": "20s", "tags": "a,b",
		"http-host": "a,b", "id": "of-the-line", "zone": "of-a-variable"} {
		if got := textOf(cmd.Flags().Lookup(name)); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestASettingsFileIsOneDocument(t *testing.T) {
	for text, want := range map[string]bool{"": true, "---\nttl: 20s\n": true, "# none\n": true,
		"ttl: 20s\n---\nid: n1\n": false, "ttl: 20s\n--- [\n": false} {
		a, cmd := commandOf(t, "coordd run", "", "")
		a.configPath = settingsFile(t, text)
		if err := a.settings(cmd); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A number is decimal, and a time has a unit and a bound, whichever way it comes.
func TestNumbersAndTimesAreReadAlikeEverywhere(t *testing.T) {
	for flag, values := range map[string]map[string]string{
		"capacity": {"010": "10", "0": "0", "00": "0", "0x10": "", "1_000": "", "-1": "", "1e3": "",
			"99999999999999999999": "", "0o10": "", "0b1": "", "+5": "", "5.0": "", "' 5 '": "5"},
		"move-budget": {"010": "10", "+5": "", "1e3": "", "010%": "10%", "1e1%": "", "0x1p3%": "",
			"2.5%": "2.5%", "+5%": "", "inf%": ""},
		"max-restarts": {"010": "10", "-0": "0", "o10": ""},
		"ttl":          {"10s": "10s", "10": "", "-1s": "", "999999h": "", "soon": ""},
		"hold-items":   {"true": "true", "yes": ""},
	} {
		for value, want := range values {
			text := strings.Trim(value, "'") // as YAML has it
			for _, way := range []string{"flag", "variable", "file"} {
				a, cmd := commandOf(t, "coordd run", envName(flag), text)
				var err error
				switch way {
				case "flag":
					err = cmd.ParseFlags([]string{"--" + flag + "=" + text})
				case "file":
					a, cmd = commandOf(t, "coordd run", "", "")
					a.configPath = settingsFile(t, flag+": "+value)
					fallthrough
				default:
					err = a.settings(cmd)
				}
				got := cmd.Flags().Lookup(flag).Value.String()
				if (err != nil) != (want == "") || want != "" && got != want ||
					err != nil && !strings.Contains(err.Error(), "give ") &&
						!strings.Contains(err.Error(), "too large") {
					t.Errorf("--%s %s by %s: %s, %v; want %s", flag, value, way, got, err, want)
				}
			}
		}
	}
}

func TestAVariableOfConsulsThatNoRequestCanCarryIsNamed(t *testing.T) {
	t.Setenv("CONSUL_HTTP_TOKEN", "\ufeff s3cret\r\n")
	trimConsulVariables()
	if got := os.Getenv("CONSUL_HTTP_TOKEN"); got != "s3cret" {
		t.Errorf("it is %q", got)
	}
	for _, bad := range []string{"CONSUL_HTTP_TOKEN=s3\ncret", "CONSUL_HTTP_TOKEN=s3 cret",
		"CONSUL_HTTP_TOKEN=s3\u00e9cret", "CONSUL_HTTP_SSL=maybe", "CONSUL_HTTP_SSL_VERIFY=no",
		"CONSUL_NAMESPACE=a b", "CONSUL_PARTITION=a/b", "CONSUL_TLS_SERVER_NAME=a b",
		"CONSUL_HTTP_ADDR=a b:8500", "CONSUL_HTTP_ADDR=h:", "CONSUL_HTTP_ADDR=h:0",
		"CONSUL_HTTP_ADDR=h:70000", "CONSUL_HTTP_ADDR=unix://", "CONSUL_HTTP_ADDR=127.0.0.010:80",
		"CONSUL_HTTP_TOKEN_FILE=/dev/null", "CONSUL_HTTP_TOKEN_FILE=/", "CONSUL_CACERT=/dev/null",
		"CONSUL_CAPATH=/no/such", "CONSUL_CLIENT_CERT=/dev/null", "CONSUL_HTTP_AUTH=a:s3\ncret"} {
		t.Run(bad, func(t *testing.T) {
			name, value, _ := strings.Cut(bad, "=")
			t.Setenv(name, value)
			_, _, err := (&consulFlags{}).client()
			if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), name) ||
				strings.Contains(err.Error(), "cret") {
				t.Errorf("it is said: %v", err)
			}
		})
	}
}

// A wrapper ends its flags at the command.
func TestTheFlagsOfAnElectionEndAtItsCommand(t *testing.T) {
	for line, want := range map[string]string{
		"e ./job.sh --once --id x --ttl 3s --help": "e|./job.sh|--once|--id|x|--ttl|3s|--help",
		"e --id m1 --once ./job.sh --ttl 3s":       "e|./job.sh|--ttl|3s id=m1 once=true",
		"--once e -- ./job.sh -x":                  "e|./job.sh|-x once=true",
		"e --status":                               "e",
	} {
		cmd := (&app{}).electCommand()
		must(t, cmd.ParseFlags(strings.Fields(line)))
		args, err := behindName(cmd, cmd.Flags().Args())
		must(t, err)
		got := strings.Join(args, "|")
		for _, name := range []string{"id", "once"} {
			if f := cmd.Flags().Lookup(name); f.Changed {
				got += " " + name + "=" + f.Value.String()
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// FuzzSettings holds that any text is read or refused as bad usage that names the file.
func FuzzSettings(f *testing.F) {
	for _, text := range []string{"ttl: 10s", "a: b", "? [x]\n: y", "ttl: &a [*a]", "*x", "\t",
		"ttl: 1\n---\n", "!!binary x: 1", "<<: {ttl: 1}", "{ttl: 1", "http-host: [[a]]", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, cmd := commandOf(t, "coordd run", "", "")
		a.configPath = settingsFile(t, text)
		if err := a.settings(cmd); err != nil && (!errors.Is(err, errUsage) ||
			!strings.Contains(err.Error(), "the-file")) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
