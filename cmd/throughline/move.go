package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/config"
)

// moveUser is run again after any end of it: it goes on, and tells the directory again.
func moveUser(line *commandLine) runner {
	line.takesArgument = true
	to := line.String("to", "", "the DATABASE_DIRECT_URL of the other cell, a connection string")
	cell := line.String("cell", "", "its CELL")
	wait := line.Duration("wait", 2*time.Minute, "for the user's replies and jobs to end")
	then := line.String("then", "", "tells the directory where the user is: run by sh -c, with THROUGHLINE_USER and THROUGHLINE_CELL")
	return func(ctx context.Context, stdout, stderr io.Writer) error {
		user, err := uuid.Parse(line.argument)
		switch {
		case err != nil || user == uuid.Nil:
			return line.wrong("name a user's uuid")
		case *to == "":
			return line.wrong("--to must be the connection string of the other cell's Postgres")
		case !config.CellName.MatchString(*cell):
			return line.wrong("--cell must be the other cell's name: 1 to 32 lower-case letters, digits and hyphens")
		case *wait < 0:
			return line.wrong("--wait must be a duration, such as 2m")
		}
		cfg, err := loadConfig((*config.Config).RequireDatabase)
		if err != nil {
			return err
		}
		if *cell == cfg.Cell.Name {
			return line.wrong("--cell is the CELL that the user would leave")
		}
		if err := app.Move(ctx, cfg, *to, *cell, user, *wait); err != nil {
			return fmt.Errorf("move: %w", err)
		}
		fmt.Fprintf(stdout, "moved %s to %s\n", user, *cell)
		if *then == "" {
			return nil
		}
		directory := exec.CommandContext(ctx, "sh", "-c", *then) //nolint:gosec // the operator's own words
		directory.Env = append(directory.Environ(), "THROUGHLINE_USER="+user.String(), "THROUGHLINE_CELL="+*cell)
		directory.Stdout, directory.Stderr = stdout, stderr
		if err := directory.Run(); err != nil {
			return fmt.Errorf("move: the user has moved, and --then failed; run it again: %w", err)
		}
		return nil
	}
}
