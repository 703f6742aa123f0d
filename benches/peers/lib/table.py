"""Rows as a table for people."""


def figure(value: object, unit: object) -> str:
    if not isinstance(value, (int, float)):
        return "-"
    return f"{value:.4g} {unit}"


def table(rows: "list[dict[str, object]]") -> str:
    """Aligned columns."""
    lines = [("goal", "bench", "ours", "theirs", "ratio", "peer")]
    for row in rows:
        ratio = row["ratio"]
        lines.append((
            str(row["goal"]), str(row["bench"]), figure(row["ours"], row["unit"]), figure(row["theirs"], row["unit"]),
            f"{ratio:.3g}" if isinstance(ratio, (int, float)) else "-", str(row["peer"]),
        ))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in lines)
