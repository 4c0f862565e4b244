package main

import (
	"strings"

	"github.com/coordd/coordd/internal/output"
	"github.com/spf13/pflag"
)

// outputFlags say what becomes of what commands write.
type outputFlags struct {
	output string
}

// rawOutput is the default: commands have coordd's own standard output and error.
const rawOutput = "raw"

func (o *outputFlags) register(f *pflag.FlagSet) {
	f.StringVar(&o.output, "output", rawOutput,
		"The `way` of what commands write: raw (to coordd's own output), prefix (the same, with "+
			"the item's id, and out or err, before each line) or file:DIR (appended to "+
			"DIR/ITEM.log). With prefix a line of more than 16 KiB is cut into pieces.")
}

// parse reads the flags. It opens nothing.
func (o *outputFlags) parse() (cfg output.Config, err error) {
	kind, dir, more := strings.Cut(o.output, ":")
	switch {
	case o.output == rawOutput, o.output == "":
	case kind == "prefix" && !more:
		cfg.To = output.Prefix
	case kind == "file" && dir != "":
		cfg.To, cfg.Dir = output.File, dir
	default:
		return cfg, usage("--output %q: give raw, prefix or file:DIR", o.output)
	}
	return cfg, nil
}

// open parses the flags and looks whether what they name can be used. It makes the directory.
func (o *outputFlags) open() (output.Config, error) {
	cfg, err := o.parse()
	if err == nil && cfg.To == output.File {
		if cfg.Dir, err = output.CheckDir(cfg.Dir); err != nil {
			err = usage("--output: %v", err)
		}
	}
	return cfg, err
}
