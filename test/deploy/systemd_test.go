//go:build linux && coordd_long

// Package deploy_test holds what docs/deploy and docs/examples ship for machines to what the tools
// that read it say of it.
package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const unit = "deploy/systemd/coordd@.service"

func TestSystemdFindsNothingWrongWithTheUnit(t *testing.T) {
	text := strings.ReplaceAll(shipped(t, unit), "/usr/bin/coordd", binary)
	path := filepath.Join(t.TempDir(), "coordd@demo.service")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	if out := said(t, nil, "systemd-analyze", "verify", "--man=no", path); out != "" {
		t.Errorf("systemd-analyze verify says:\n%s", out)
	}
}

func TestTheUserOfTheUnitIsMade(t *testing.T) {
	path, err := filepath.Abs("../../docs/deploy/systemd/coordd.sysusers")
	must(t, err)
	if !strings.Contains(shipped(t, unit), "\nUser=coordd\n") {
		t.Error("the unit has another user")
	}
	// It prints what it would do, or nothing where the user is there.
	said(t, nil, "systemd-sysusers", "--dry-run", path)
}

// variable is one of a unit's, with its value.
var variable = regexp.MustCompile(`\bCOORDD_[A-Z_]+=\S+`)

func TestTheSettingsOfTheUnitAndOfItsFileAreSettings(t *testing.T) {
	env := variable.FindAllString(shipped(t, unit), -1)
	if len(env) < 3 {
		t.Fatalf("the unit sets %q", env)
	}
	for i := range env {
		env[i] = strings.NewReplacer("%i", "demo", "%l", "n1").Replace(env[i])
	}
	// All of the file's settings, also those that it only proposes.
	text := regexp.MustCompile(`(?m)^#(\w[\w-]*: )`).ReplaceAllString(
		shipped(t, "deploy/etc/example.yaml"), "$1")
	path := filepath.Join(t.TempDir(), "demo.yaml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	out := said(t, env, binary, "run", "--config", path, "--explain-timing")
	if strings.Contains(out, "no setting") || !strings.Contains(out, "restart-wait 2s") {
		t.Errorf("it says:\n%s", out)
	}
}
