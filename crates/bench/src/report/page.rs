//! Building blocks of pages: their frame, badges, tables that scroll, pictures for wide and narrow screens.

use super::chart::{Chart, Size};
use super::escape;
use crate::verdict::VerdictKind;

const STYLE: &str = include_str!("style.css");

/// A whole page. It loads nothing and contains no script.
pub(super) fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style></head>\n<body>\n{body}</body></html>\n",
        escape(title)
    )
}

/// The CSS class of a verdict.
pub(super) fn class(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Valid => "valid",
        VerdictKind::Doubtful => "doubtful",
        VerdictKind::Interrupted | VerdictKind::Invalid | VerdictKind::NothingMeasured => "invalid",
    }
}

/// A verdict next to a name.
pub(super) fn badge(kind: VerdictKind, text: &str) -> String {
    format!("<span class=\"badge {}\">{}</span>", class(kind), escape(text))
}

/// Wraps an element that may be wider than a screen.
pub(super) fn scrolled(table: &str) -> String {
    format!("<div class=\"scroll\">{table}</div>\n")
}

/// A chart, drawn for a page and again for a narrow screen. The style shows one of them.
pub(super) fn figure(chart: &Chart, wide: Size) -> String {
    format!(
        "<figure><div class=\"wide\">{}</div><div class=\"narrow\">{}</div></figure>\n",
        chart.picture(wide).svg(),
        chart.picture(Chart::NARROW).svg()
    )
}

/// An index page of the pictures in its own folder: file names, each with its title.
pub(crate) fn index(pictures: &[(String, &Chart)]) -> String {
    let mut body = String::from("<h1>Pictures</h1>\n");
    for (file, chart) in pictures {
        let (file, title) = (escape(file), escape(&chart.title));
        let notes: String = chart
            .notes
            .iter()
            .map(|note| {
                format!(
                    "<p{}>{}</p>",
                    if note.alarm { " class=\"alarm\"" } else { " class=\"remark\"" },
                    escape(&note.text)
                )
            })
            .collect();
        body.push_str(&format!(
            "<section class=\"card\"><h2><a href=\"{file}\">{title}</a></h2><p class=\"remark\">{file}</p>{notes}\
             <a href=\"{file}\"><img src=\"{file}\" alt=\"{title}\" loading=\"lazy\"></a></section>\n"
        ));
    }
    page("Pictures", &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Note;

    #[test]
    fn pictures_have_an_index() {
        let notes = vec![Note::alarm("x: INVALID: it was <late>")];
        let chart = Chart { title: "a < b".to_owned(), notes, ..Chart::default() };
        let text = index(&[("chart-1.svg".to_owned(), &chart), ("chart-1.png".to_owned(), &chart)]);
        assert_eq!(text.matches("<img src=\"chart-1.").count(), 2);
        assert!(
            text.contains("a &lt; b</a>")
                && text.contains("<p class=\"alarm\">x: INVALID: it was &lt;late&gt;</p>")
        );
        assert!(!text.contains("<script") && text.ends_with("</html>\n"));
    }
}
