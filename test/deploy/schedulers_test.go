//go:build linux

package deploy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// runnable holds a command line and its variables to what coordd takes. A value that the scheduler
// fills in is a word here.
func runnable(t *testing.T, args, env []string) {
	t.Helper()
	if len(args) < 1 || args[0] != "run" || len(env) < 3 {
		t.Fatalf("it runs %q with %q", args, env)
	}
	out := said(t, env, binary, append(args, "--explain-timing")...)
	if strings.Contains(out, "no setting") {
		t.Errorf("%q with %q says:\n%s", args, env, out)
	}
}

func TestTheDeploymentForKubernetesRunsMembers(t *testing.T) {
	d := yaml.NewDecoder(strings.NewReader(shipped(t, "examples/kubernetes/deployment.yaml")))
	var deployment struct {
		Kind string
		Spec struct {
			Selector struct{ MatchLabels map[string]string }
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					Containers []struct {
						Args []string
						Env  []struct {
							Name, Value string
							ValueFrom   map[string]any `yaml:"valueFrom"`
						}
					}
				}
			}
		}
	}
	if err := d.Decode(&deployment); err != nil || deployment.Kind != "Deployment" {
		t.Fatalf("%s: %v", deployment.Kind, err)
	}
	template := deployment.Spec.Template
	if len(template.Spec.Containers) != 1 || template.Metadata.Labels["app"] != "demo" {
		t.Fatalf("%+v", template)
	}
	var env []string
	for _, v := range template.Spec.Containers[0].Env {
		value := strings.NewReplacer("$(POD_IP)", "10.0.0.7", "$(HOST_IP)", "10.0.0.1").Replace(
			v.Value)
		if v.ValueFrom != nil {
			value = "filled-in"
		}
		env = append(env, v.Name+"="+value)
	}
	runnable(t, template.Spec.Containers[0].Args, env)
}

func TestTheJobForNomadRunsMembers(t *testing.T) {
	text := shipped(t, "examples/nomad/demo.nomad.hcl")
	list := regexp.MustCompile(`(?m)^\s*args\s*= (\[.*\])$`).FindStringSubmatch(text)
	var args []string
	if list == nil || json.Unmarshal([]byte(list[1]), &args) != nil {
		t.Fatalf("the job has the arguments %q", list)
	}
	var env []string
	for _, v := range regexp.MustCompile(`(?m)^\s*([A-Z_]+)\s*= "(.*)"$`).FindAllStringSubmatch(
		text, -1) {
		value := regexp.MustCompile(`\$\{NOMAD_PORT_\w+\}`).ReplaceAllString(v[2], "7070")
		env = append(env, v[1]+"="+regexp.MustCompile(`\$\{.*\}`).ReplaceAllString(value, "x"))
	}
	runnable(t, args, env)
}

// The image is built from no more than what it copies.
func TestTheImageCopiesWhatItIsBuiltFrom(t *testing.T) {
	text := shipped(t, "deploy/Dockerfile")
	var copied []string
	for _, c := range regexp.MustCompile(`(?m)^COPY (\w+) (\w+)$`).FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join("../..", c[1])); err != nil || c[1] != c[2] {
			t.Errorf("%s: %v", c[0], err)
		}
		copied = append(copied, c[1])
	}
	const module = "github.com/coordd/coordd/"
	for pkg := range strings.FieldsSeq(said(t, nil, "go", "list", "-deps", module+"cmd/coordd")) {
		rest, ours := strings.CutPrefix(pkg, module)
		if dir, _, _ := strings.Cut(rest, "/"); ours && !slices.Contains(copied, dir) {
			t.Errorf("%s is not copied", pkg)
		}
	}
	if !strings.Contains(text, "FROM golang:"+wantedGo(t)) {
		t.Errorf("the image is not built with Go %s, as go.mod says", wantedGo(t))
	}
}

// wantedGo is the language version of go.mod.
func wantedGo(t *testing.T) string {
	t.Helper()
	mod, err := os.ReadFile("../../go.mod")
	must(t, err)
	v := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	if v == nil {
		t.Fatal("go.mod names no version")
	}
	return string(v[1])
}
