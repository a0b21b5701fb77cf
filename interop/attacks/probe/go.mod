module tailrace.local/probe

go 1.26.0
