package main

import "github.com/spf13/cobra"

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which build this is",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.output == "json" {
				return a.writeJSON(map[string]string{"version": version})
			}
			a.say("%s\n", version)
			return nil
		},
	}
}
