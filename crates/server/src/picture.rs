//! Pictures of definitions and workflows, in the formats that others draw.

use clap::ValueEnum;
use serde_json::json;
use windlass::draw::Drawing;

use crate::show::Answer;

/// What the picture is written in.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Format {
    /// For pages that draw Mermaid
    #[default]
    Mermaid,
    /// For Graphviz
    Dot,
    /// For browsers
    Svg,
}

impl Format {
    fn word(self) -> &'static str {
        match self {
            Self::Mermaid => "mermaid",
            Self::Dot => "dot",
            Self::Svg => "svg",
        }
    }

    pub(crate) fn text(self, drawing: &Drawing) -> String {
        let text = match self {
            Self::Mermaid => drawing.mermaid(),
            Self::Dot => drawing.dot(),
            Self::Svg => drawing.svg(),
        };
        if text.ends_with('\n') { text } else { text + "\n" }
    }

    /// The picture as an answer.
    pub(crate) fn answer(self, drawing: &Drawing) -> Answer {
        let text = self.text(drawing);
        let json = json!({ "format": self.word(), "graph": text });
        Answer::new(text, &json)
    }

    /// The answer for a picture that was written to a file.
    pub(crate) fn written(self, path: &str) -> Answer {
        let json = json!({ "format": self.word(), "file": path });
        Answer::new(format!("{}\n", crate::escape::plain(path)), &json)
    }
}
