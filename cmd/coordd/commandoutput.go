package main

import (
	"os"
	"strings"

	"github.com/coordd/coordd/internal/output"
	"github.com/spf13/pflag"
)

// outputFlags say what becomes of what commands write.
type outputFlags struct {
	output     string
	outputRate int
}

// rawOutput is the default: commands have coordd's own standard output and error.
const rawOutput = "raw"

func (o *outputFlags) register(f *pflag.FlagSet) {
	f.StringVar(&o.output, "output", rawOutput,
		"The `way` of what commands write: raw (to coordd's own output), prefix (the "+
			"same, with the item's id, and out or err, before each line), file:DIR (appended to "+
			"DIR/ITEM.log) or journal (to journald, with fields such as COORDD_ITEM; "+
			"journal:SOCKET for another one). With prefix and journal a line of more than 16 KiB "+
			"is cut into pieces.")
	f.IntVar(&o.outputRate, "output-rate", 0,
		"The `lines` a second that are kept of an item, beside a burst of ten seconds' worth. The "+
			"rest is dropped, counted, and said in one line every 10s. Not with --output raw. 0 "+
			"means all.")
}

// parse reads the flags. It opens nothing.
func (o *outputFlags) parse() (cfg output.Config, err error) {
	if o.outputRate < 0 {
		return cfg, usage("--output-rate %d: give the lines a second, or 0 for all", o.outputRate)
	}
	kind, where, more := strings.Cut(o.output, ":")
	switch {
	case o.output == rawOutput, o.output == "":
		return cfg, nil
	case kind == "prefix" && !more:
		cfg.To = output.Prefix
	case kind == "file" && where != "":
		cfg.To, cfg.Dir = output.File, where
	case kind == "journal" && (!more || where != ""):
		cfg.To, cfg.Socket = output.Journal, output.JournalSocket
		if more {
			cfg.Socket = where
		}
	default:
		return cfg, usage("--output %q: give raw, prefix, file:DIR or journal", o.output)
	}
	cfg.Rate = o.outputRate
	return cfg, nil
}

// open parses the flags and looks whether what they name can be used. It makes the directory.
func (o *outputFlags) open() (output.Config, error) {
	cfg, err := o.parse()
	if err != nil {
		return cfg, err
	}
	switch cfg.To {
	case output.Prefix:
		colours := os.Getenv("NO_COLOR") == ""
		cfg.Terminal = [2]bool{colours && isTerminal(os.Stdout), colours && isTerminal(os.Stderr)}
	case output.File:
		if cfg.Dir, err = output.CheckDir(cfg.Dir); err != nil {
			return cfg, usage("--output: %v", err)
		}
	case output.Journal:
		if err := output.CheckJournal(cfg.Socket); err != nil {
			return cfg, usage("--output: %v", err)
		}
	}
	return cfg, nil
}
