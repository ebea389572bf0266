package main

import (
	"context"
	"io"
	"strings"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/judge"
)

// quality tells what the configured models are worth, before users do.
func quality(line *commandLine) runner {
	languages := line.String("languages", "", "only cases in these languages, such as en,de")
	all := line.Bool("all", false, "print everything that is wrong")
	return func(ctx context.Context, stdout, _ io.Writer) error {
		cfg, err := loadConfig((*config.Config).RequireModel)
		if err != nil {
			return err
		}
		cases, err := judge.Cases(strings.FieldsFunc(*languages, func(r rune) bool { return r == ',' || r == ' ' })...)
		if err != nil {
			return line.wrong("%v", err)
		}
		report, err := app.Judge(ctx, cfg, cases)
		if err != nil {
			return err
		}
		return report.Write(stdout, *all)
	}
}
