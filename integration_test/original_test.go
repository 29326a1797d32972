package integration_test

const originalName = "llama-server.orig"

func standIn([]string) int { return 1 }
