//go:build unix

package guard

import (
	"encoding/json"
	"os"
	"time"

	"github.com/coordd/coordd/internal/output"
)

const (
	// outputEnv is Config.Output for the guard process; commands do not see it.
	outputEnv = "COORDD_GUARD_OUTPUT"
	// outputLimit is how long the end of the guard process waits for what commands wrote to be
	// copied. The owner waits for that end for stopSlack; outbox.close takes a second of it, too.
	outputLimit = time.Second
)

func outputVariable(cfg output.Config) string {
	if cfg.To == output.Raw {
		return ""
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		return "" // it holds strings and numbers
	}
	return outputEnv + "=" + string(text)
}

// takeOutput takes from the environment what spawn has put there.
func takeOutput() (cfg output.Config) {
	text := os.Getenv(outputEnv)
	_ = os.Unsetenv(outputEnv)
	if text != "" && json.Unmarshal([]byte(text), &cfg) != nil {
		return output.Config{To: "unreadable"} // New refuses it
	}
	return cfg
}
