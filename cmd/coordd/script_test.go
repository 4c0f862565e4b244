package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
)

// TestScripts plays each session under testdata/script with the binary itself.
// What takes time is waited for with `eventually`, never slept for.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[marked] = new(time.Time)
			// The race detector would let each command wait a second at its end.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			// Only what a script sets shall count.
			env.Setenv("CONSUL_HTTP_ADDR", "127.0.0.1:1")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"certificates": certificates,
			"eventually":   eventually,
			"freeport":     freeport,
			"get":          get,
			"lines":        lines,
			"mark":         mark,
			"within":       within,
			"gone":         gone,
			"slowbodies":   slowBodies,
			"steady":       steady,
		},
	})
}

// eventually [!] REGEXP PROGRAM ARGS... runs a program until its output matches;
// "http:" as the program is a GET of the argument, with the status line first,
// and "file:" reads a file.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: eventually REGEXP PROGRAM ARGS...")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	_, out := testkit.Look(testkit.Patience, func() string {
		if out := outputOf(ts, args[1:]); want.MatchString(out) == neg {
			return "the last output was:\n" + out
		}
		return ""
	})
	if out != "" {
		ts.Fatalf("not within %v: %v %s; %s", testkit.Patience, !neg, args[0], out)
	}
}

func outputOf(ts *testscript.TestScript, args []string) string {
	switch args[0] {
	case "http:":
		return fetch(args[1])
	case "file:":
		data, err := os.ReadFile(ts.MkAbs(args[1]))
		if err != nil {
			return err.Error()
		}
		return string(data)
	}
	path := args[0]
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), string(os.PathListSeparator)) {
		if info, err := os.Stat(filepath.Join(dir, args[0])); err == nil && !info.IsDir() {
			path = filepath.Join(dir, args[0])
			break
		}
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"GORACE=" + ts.Getenv("GORACE"), "PATH=" + ts.Getenv("PATH"),
		"CONSUL_HTTP_ADDR=" + ts.Getenv("CONSUL_HTTP_ADDR"), "COORDD_SERVICE=" +
			ts.Getenv("COORDD_SERVICE")}
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// fetch looks at no certificate.
func fetch(url string) string {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: testkit.Patience}
	r, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	body, _ := io.ReadAll(r.Body)
	return fmt.Sprintf("%s\n%s", r.Status, body)
}

// certificates DIR writes ca.pem, cert.pem and key.pem there.
func certificates(ts *testscript.TestScript, _ bool, args []string) {
	_, err := realconsul.MakeTLS(ts.MkAbs(args[0]))
	ts.Check(err)
}

// freeport NAME... sets each variable to a loopback address that nobody listens
// on. The ports are below those that systems hand out by themselves.
func freeport(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		for {
			addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(20_000+rand.IntN(10_000)))
			ln, err := net.Listen("tcp", addr)
			if err != nil {
				continue
			}
			ts.Check(ln.Close())
			ts.Setenv(name, addr)
			break
		}
	}
}

// get URL prints the status line and the body, for stdout to match against.
func get(ts *testscript.TestScript, _ bool, args []string) {
	_, err := ts.Stdout().Write([]byte(fetch(args[0])))
	ts.Check(err)
}

// lines N checks that standard error of the last program has N lines.
func lines(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	text := ts.ReadFile("stderr")
	if got := strings.Count(text, "\n"); got != n {
		ts.Fatalf("%d lines on standard error, want %d:\n%s", got, n, text)
	}
}

const marked = "marked"

// mark and within D measure the time between them.
func mark(ts *testscript.TestScript, _ bool, _ []string) {
	*ts.Value(marked).(*time.Time) = time.Now()
}

func within(ts *testscript.TestScript, _ bool, args []string) {
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	if took := time.Since(*ts.Value(marked).(*time.Time)); took > limit {
		ts.Fatalf("it took %v, want at most %v", took, limit)
	}
}

// gone FILE... waits until the processes whose ids the files hold, one a line, have ended.
func gone(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("gone cannot be negated")
	}
	for _, file := range args {
		for pid := range strings.FieldsSeq(ts.ReadFile(file)) {
			id, err := strconv.Atoi(pid)
			ts.Check(err)
			if _, why := testkit.Look(testkit.Patience, func() string {
				if errors.Is(syscall.Kill(id, 0), syscall.ESRCH) {
					return ""
				}
				// A zombie has ended: only its parent has not looked yet.
				stat, err := os.ReadFile("/proc/" + pid + "/stat")
				if err == nil && strings.Contains(string(stat), ") Z ") {
					return ""
				}
				return "it still runs: " + string(stat)
			}); why != "" {
				ts.Fatalf("process %s: %s", pid, why)
			}
		}
	}
}

// slowBodies N URL opens connections on each of which a PUT has begun whose body does not come.
// They stay open until the script ends, and are opened again when they are closed, as far as they
// can be.
func slowBodies(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	target, err := url.Parse(args[1])
	ts.Check(err)
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for {
				conn, err := net.DialTimeout("tcp", target.Host, testkit.Patience)
				if err == nil {
					_, _ = fmt.Fprintf(conn,
						"PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 100000\r\n\r\nx",
						target.Path, target.Host)
					closed := make(chan struct{})
					go func() {
						_, _ = io.Copy(io.Discard, conn)
						close(closed)
					}()
					select {
					case <-closed:
					case <-stop:
					}
					conn.Close()
					<-closed
				}
				select {
				case <-stop:
					return
				case <-time.After(500 * time.Millisecond):
				}
			}
		})
	}
	ts.Defer(func() {
		close(stop)
		all.Wait()
	})
	time.Sleep(time.Second) // they come in
}

// steady D REGEXP URL gets the URL for a time, and each answer has to match. One that is refused in
// a crowd is asked again, until one matches.
func steady(ts *testscript.TestScript, _ bool, args []string) {
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	want, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	good, last := time.Now(), false
	for end := good.Add(d); !last || time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		out := fetch(args[2])
		if last = want.MatchString(out); last {
			good = time.Now()
		} else if time.Since(good) > testkit.Patience {
			ts.Fatalf("for %v no answer has matched %s; the last one was:\n%s", time.Since(good),
				args[1], out)
		}
	}
}
