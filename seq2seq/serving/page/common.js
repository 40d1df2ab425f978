// What both pages share: the words of the interface, and asking the server.

const WORDS = {
  en: {
    other: "Français", model: "Model", key: "API key", copy: "Copy", attention: "Attention of this sentence",
    glossary: "Glossary", terms: "A phrase, = and its translation, on a line each",
    others: "Other translations", from: "Otherwise from", words: "Words of the translation",
    sure: "confidence", shade: "A word underlined in orange is one that the model was less sure of. Choose a word to see how the sentence could continue from there.",
    back: "Back", layer: "Layer", head: "Head", mean: "mean of heads", failed: "The server does not answer",
    map: "Rows: words of the translation. Columns: what the model looked at. The stronger the colour, the more.",
    empty: "Translate a sentence first.",
  },
  fr: {
    other: "English", model: "Modèle", key: "Clé d’API", copy: "Copier", attention: "Attention de cette phrase",
    glossary: "Glossaire", terms: "Une expression, = et sa traduction, une par ligne",
    others: "Autres traductions", from: "Autrement à partir de", words: "Mots de la traduction",
    sure: "confiance", shade: "Un mot souligné en orange est un mot dont le modèle était moins sûr. Choisissez un mot pour voir comment la phrase pourrait continuer.",
    back: "Retour", layer: "Couche", head: "Tête", mean: "moyenne des têtes", failed: "Le serveur ne répond pas",
    map: "Lignes : mots de la traduction. Colonnes : ce que le modèle a regardé. Plus la couleur est forte, plus il y a d’attention.",
    empty: "Traduisez d’abord une phrase.",
  },
};

export const tongue = () => localStorage.getItem("tongue") ?? (navigator.language.startsWith("fr") ? "fr" : "en");
export const say = (name) => WORDS[tongue()][name];

// Write the interface in its language; `other`: in the other one from now on.
export function speak(other = false) {
  if (other) localStorage.setItem("tongue", tongue() === "fr" ? "en" : "fr");
  document.documentElement.lang = tongue();
  for (const one of document.querySelectorAll("[data-say]")) one.textContent = say(one.dataset.say);
  const button = document.getElementById("language");
  button.textContent = say("other");
  button.lang = tongue() === "fr" ? "en" : "fr";
}

// What the server answers; throws what it says is wrong.
export async function ask(path, body, signal) {
  const key = sessionStorage.getItem("key");
  const headers = { "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) };
  const how = body ? { method: "POST", body: JSON.stringify(body) } : {};
  let response;
  try {
    response = await fetch(path, { ...how, headers, signal });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Error(say("failed"));
  }
  const found = await response.json();
  if (!response.ok) throw new Error(found.error);
  return found;
}
